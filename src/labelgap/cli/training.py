"""The data of ``labelgap fit``: ratings with tables beside them, or a table of features and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgap.cli.choices import refuse_unused_time
from labelgap.cli.inputs import read_training_table, warn_of_repeated_ids
from labelgap.cli.options import Setting
from labelgap.cli.preparing import make_preparation, prepared
from labelgap.cli.rating_checks import check_likes, count_pairs
from labelgap.cli.ratings import read_ratings_file, times_of
from labelgap.cli.session import Session
from labelgap.cli.side_tables import Sides, read_sides
from labelgap.data.files.feature_plan import FeaturePlan
from labelgap.data.files.ids import repeated_ids
from labelgap.data.files.reading import Columns
from labelgap.data.files.source import Source
from labelgap.exceptions import DataFileError
from labelgap.labels import ObservedLabels


@dataclass(frozen=True)
class Training:
    """The data of a fit, and the facts that are printed about it."""

    arguments: tuple[Any, ...]
    facts: dict[str, Any]
    feature_names: tuple[str, ...] | None = None
    taken_ids: str | None = None
    """The column of ids, where no option named it."""
    prepare: Any = None
    """What was done to the columns of the file to make features of them."""
    sides: Sides | None = None
    """What tables of users and items say."""
    row_ids: tuple[Any, ...] | None = None
    """The ids of the rows, where they have some and none comes twice: later files may say more of them."""

    @property
    def features(self) -> dict[str, Any]:
        """The features of users and items, as ``Recommender.fit`` takes them."""
        return {} if self.sides is None else self.sides.features

    @property
    def size(self) -> str:
        """How much there is, in words."""
        facts = self.facts
        return f"{facts['answers']} ratings" if "answers" in facts else f"{facts['rows']} rows"


def read_training(session: Session, source: Source, setting: Setting, given: dict[str, Any]) -> Training:
    """Read the data of a fit, as the options in ``given`` say."""
    if setting is Setting.recommender:
        aggregate, half_life = given["aggregate"], given["half_life"]
        refuse_unused_time(given["time"], aggregate, half_life)
        time = times_of(source, given["time"], aggregate, half_life)
        ratings = read_ratings_file(source, given["user"], given["item"], given["value"], time)
        if aggregate is None:
            check_likes(source, ratings, given["positive"], given["unobserved"])
        pairs = count_pairs(source, ratings, given["positive"], aggregate)
        sides = read_sides(session, ratings, given)
        return Training((ratings.answers,), {"answers": pairs} | sides.facts, sides=sides)
    second, xml = session.label_file(given["label_file"])
    plan = FeaturePlan(given["categorical"] or (), keep_missing=given["impute"] is not None)
    if not source.is_sheet and given["categorical"]:
        raise DataFileError(f"{source.path}: --categorical is about columns of a csv, tsv or parquet file.")
    columns = Columns(
        given["labels"],
        given["features"],
        given["id"],
        given["drop"] or (),
        second,
        xml,
        given["separator"],
        plan=plan,
    )
    # Known no are read even if only yes count, so that the fit can say how many it does not use.
    meant = "missing" if given["unobserved"] == "unlabelled" else given["unobserved"]
    table = read_training_table(source, columns, unobserved=meant, binary=setting is Setting.features)
    use = "Each of these rows is one example of its own in the fit; drop the copies if they are the same."
    warn_of_repeated_ids(session, source, table.row_ids, use)
    prepare = make_preparation(table.X, table.feature_names, plan, given["impute"])
    return Training(
        (prepared(prepare, table.X), table.labels),
        {"rows": table.labels.shape[0], "ids": table.ids} | _observed(table.labels),
        table.feature_names,
        table.ids if given["id"] is None else None,
        prepare=prepare,
        row_ids=None if table.row_ids is None or repeated_ids(table.row_ids) else table.row_ids,
    )


def data_lines(training: Training) -> list[tuple[str, str]]:
    """What is printed about the data of a fit."""
    facts = training.facts
    if "answers" in facts:
        tables = [(name, facts[name]) for name in ("item features", "user features") if name in facts]
        return [("ratings", str(facts["answers"])), *tables]
    fraction = facts["observed"] / max(facts["cells"], 1)
    yes = None if facts["positive"] is None else facts["positive"] / max(facts["observed"], 1)
    observed = f"{100 * fraction:.1f} % of {facts['cells']} entries"
    if yes is not None:
        observed += f", {100 * yes:.1f} % of them yes"
    ids = [] if training.taken_ids is None else [("ids", training.taken_ids)]
    return [("rows", str(facts["rows"])), *ids, ("observed", observed)]


def _observed(labels: ObservedLabels) -> dict[str, Any]:
    return {
        "cells": labels.shape[0] * labels.shape[1],
        "observed": labels.n_observed,
        # Numbers are neither yes nor no.
        "positive": int(labels.values.sum()) if labels.values.dtype == np.int8 else None,
    }
