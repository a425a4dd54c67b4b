"""Readers of data files: rows with labels, ratings of users, tables of numbers; and a writer of columns."""

from labelgap.data.files.formats import FORMATS, detect_format
from labelgap.data.files.rating_files import read_answer_file
from labelgap.data.files.reading import read_label_table, read_numbers
from labelgap.data.files.side_tables import SideTable, read_side_table
from labelgap.data.files.tables import AnswerTable, LabelTable, NumberTable
from labelgap.data.files.writing import check_writable, write_column_blocks, write_columns

__all__ = [
    "FORMATS",
    "AnswerTable",
    "LabelTable",
    "NumberTable",
    "SideTable",
    "check_writable",
    "detect_format",
    "read_answer_file",
    "read_label_table",
    "read_numbers",
    "read_side_table",
    "write_column_blocks",
    "write_columns",
]
