"""Data: synthetic problems, files of many formats, and the real data sets in a folder of the user's."""

from labelgap.data.assays import AssayMatrix, make_assay_matrix
from labelgap.data.files import (
    FORMATS,
    AnswerTable,
    LabelTable,
    NumberTable,
    SideTable,
    check_writable,
    detect_format,
    read_answer_file,
    read_label_table,
    read_numbers,
    read_side_table,
    write_column_blocks,
    write_columns,
)
from labelgap.data.folder import (
    AnswerData,
    Answers,
    MultiLabelData,
    data_folder,
    load_answers,
    load_multilabel,
)
from labelgap.data.synthetic import LowRankProblem, make_low_rank_labels

__all__ = [
    "FORMATS",
    "AnswerData",
    "AnswerTable",
    "Answers",
    "AssayMatrix",
    "LabelTable",
    "LowRankProblem",
    "MultiLabelData",
    "NumberTable",
    "SideTable",
    "check_writable",
    "data_folder",
    "detect_format",
    "load_answers",
    "load_multilabel",
    "make_assay_matrix",
    "make_low_rank_labels",
    "read_answer_file",
    "read_label_table",
    "read_numbers",
    "read_side_table",
    "write_column_blocks",
    "write_columns",
]
