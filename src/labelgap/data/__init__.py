"""Data: synthetic problems, and the real data sets in a folder of the user's."""

from labelgap.data.answers_folder import AnswerData, Answers, load_answers
from labelgap.data.folder import MultiLabelData, data_folder, load_multilabel
from labelgap.data.synthetic import LowRankProblem, make_low_rank_labels

__all__ = [
    "AnswerData",
    "Answers",
    "LowRankProblem",
    "MultiLabelData",
    "data_folder",
    "load_answers",
    "load_multilabel",
    "make_low_rank_labels",
]
