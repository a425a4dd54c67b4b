"""What a data file holds, for ``labelgap info``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labelgap.cli.answers import holds_answers
from labelgap.cli.columns import Columns, sheet_names, with_ids
from labelgap.cli.inputs import feature_titles, read_arff_header, read_table
from labelgap.data.files import detect_format, read_answer_file
from labelgap.data.files.cells import open_sheet
from labelgap.data.files.formats import SHEETS
from labelgap.labels import ObservedLabels


def look_at(
    path: Path, labels: str | list[str] | None, ids: str | None, format: str | None
) -> dict[str, Any]:
    """What a data file holds; what is known of each label, if there are any, under "per_label"."""
    kind = detect_format(path, format)
    if labels is None and holds_answers(path, format):
        return {"format": kind} | _answers(path, format)
    if kind in SHEETS and labels is None:
        sheet = open_sheet(path, kind)
        first = sheet.read([], list(sheet.names[:1]))
        return {"format": kind, "rows": len(first[sheet.names[0]]), "columns": list(sheet.names)}
    columns = Columns(labels, ids=ids)
    if kind in SHEETS or kind == "arff":
        # Features are counted only: text in one of them is the business of a fit.
        columns = replace(columns, features=[])
    unobserved = "unlabelled" if kind == "xmc" else None
    table = read_table(path, columns, format, unobserved=unobserved, binary=kind == "xmc")
    known = table.labels
    rows = table.X.shape[0] if table.X is not None else len(known or ())
    facts: dict[str, Any] = {"format": kind, "rows": rows}
    if kind in SHEETS:
        named = with_ids(path, Columns(labels, ids=ids), format).ids is not None
        facts["features"] = len(sheet_names(path, kind)) - (known.shape[1] if known else 0) - named
    elif kind == "arff":
        facts |= _attributes(path, known)
    else:
        facts["features"] = 0 if table.X is None else table.X.shape[1]
    return facts if known is None else facts | _labels(known)


def _answers(path: Path, format: str | None) -> dict[str, Any]:
    answers = read_answer_file(path, format=format)
    facts: dict[str, Any] = {
        "answers": len(answers),
        "users": len(set(answers.users.tolist())),
        "items": len(set(answers.items.tolist())),
    }
    if answers.values is not None:
        facts |= {"lowest": float(answers.values.min()), "highest": float(answers.values.max())}
    return facts


def _attributes(path: Path, known: ObservedLabels | None) -> dict[str, Any]:
    header, rows = read_arff_header(path)
    labels = set() if known is None else set(known.label_names or ())
    others = [attribute for attribute in header.attributes if attribute.name not in labels]
    texts = [one.name for one in others if not feature_titles(one)]
    facts: dict[str, Any] = {"rows": rows, "features": sum(len(feature_titles(one)) for one in others)}
    return facts | ({"text": texts} if texts else {})


def _labels(known: ObservedLabels) -> dict[str, Any]:
    n, L = known.shape
    # In an xmc file every label that is not listed is a no.
    listed = known.unobserved == "unlabelled"
    counts = np.full(L, n) if listed else known.label_counts()
    yes = known.positive_counts()
    names = [str(name) for name in known.label_names or range(L)]
    return {
        "labels": L,
        "cells": n * L,
        "observed": int(counts.sum()),
        "above_0": int(yes.sum()),
        "per_label": [
            {"label": name, "observed": int(seen), "positive": int(positive)}
            for name, seen, positive in zip(names, counts, yes, strict=True)
        ],
    }
