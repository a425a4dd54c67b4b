"""ARFF files of Mulan and MEKA, dense or sparse. Labels are named in an XML file or in the relation.

``docs/dependencies.md`` says why no library reads them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.data.files.arff_header import ArffFile, Attribute, Header
from labelgap.data.files.arff_rows import Rows, read_rows
from labelgap.data.files.choosing import Patterns, choose_columns, require_column
from labelgap.data.files.feature_plan import FeaturePlan
from labelgap.data.files.formats import PathLike, open_errors, shortened
from labelgap.data.files.tables import LabelTable, number_of
from labelgap.exceptions import DataFileError
from labelgap.labels import ObservedLabels

_WHICH_LABELS = (
    "which attributes are labels? There is no XML file beside it that names them, and its relation has no "
    "-C. Give the XML with label_file= (--label-file), or name the labels with labels= (--labels)."
)


def read_arff(
    file: ArffFile,
    labels: Patterns | None,
    features: Patterns | None,
    drop: Patterns,
    xml: PathLike | None,
    unobserved: str | None,
    binary: bool,
    *,
    plan: FeaturePlan | None = None,
) -> LabelTable:
    """Features and labels. ``labels``, the XML file or the relation says which attributes are labels.

    ``plan`` says whether a ``?`` among the features is left as NaN; else it is refused.
    """
    path, header = file.path, file.header
    names = tuple(attribute.name for attribute in header.attributes)
    taken = dict.fromkeys(choose_columns(path, names, drop, "drop", {}), "dropped")
    label_names = _label_names(path, header, labels, xml, taken)
    taken |= dict.fromkeys(label_names, "a label")
    if features is None:
        feature_names = tuple(name for name in names if name not in taken)
    else:
        feature_names = choose_columns(path, names, features, "features", taken)
    at = {name: place for place, name in enumerate(names)}
    for name in feature_names + label_names:
        _check_type(path, header.attributes[at[name]])
    chosen = [at[name] for name in feature_names], [at[name] for name in label_names]
    rows = read_rows(file, [*chosen[0], *chosen[1]])
    # A sparse row of no characters has a value of every label, and one of an attribute has a column for each
    # value that the attribute can have.
    columns = len(label_names) + sum(
        len(header.attributes[place].feature_names)
        for place in chosen[0]
        if not (rows.is_sparse and header.attributes[place].is_number)
    )
    file.limits.check(path, 8 * len(rows.lines) * columns, None, 2.0)
    if plan is None or not plan.keep_missing:
        for place in chosen[0]:
            attribute = header.attributes[place]
            name = shortened(attribute.name, quotes=False)
            advice = f"Fill it in (--impute median), or leave it out with drop (--drop {name})."
            if plan is not None and plan.for_model:
                advice = "Fill it in, or fit again with --impute."
            elif not label_names:
                advice = _WHICH_LABELS
            _check_complete(path, rows, place, attribute, advice)
    X, expanded = _features(header, rows, chosen[0])
    known = _labels(path, header, rows, chosen[1], binary) if label_names else None
    if known is not None:
        known = ObservedLabels.from_any(known, unobserved or "missing", binary)
    return LabelTable(X, known, expanded)


def _label_names(
    path: PathLike, header: Header, labels: Patterns | None, xml: PathLike | None, taken: dict[str, str]
) -> tuple[str, ...]:
    names = tuple(attribute.name for attribute in header.attributes)
    if labels is not None:
        return choose_columns(path, names, labels, "labels", taken)
    beside = xml or _beside(path)
    if beside is not None:
        listed = dict.fromkeys(read_label_names(beside))
        known = set(names)
        for name in listed:
            if name not in known:
                require_column(path, names, name, f"the label in {beside}")
        return tuple(name for name in names if name in listed and name not in taken)
    return tuple(name for name in header.meka_labels(path) or () if name not in taken)


def _beside(path: PathLike) -> Path | None:
    """``songs.xml`` for songs.arff, and for songs-train.arff and songs-test.arff if they have none."""
    whole = Path(path)
    stem = Path(whole.name.removesuffix(".gz")).stem
    for name in (stem, stem.removesuffix("-train").removesuffix("-test")):
        if (whole.parent / f"{name}.xml").is_file():
            return whole.parent / f"{name}.xml"
    return None


def _check_type(path: PathLike, attribute: Attribute) -> None:
    if not attribute.values and not attribute.is_number:
        raise DataFileError(
            f"{path}, attribute {shortened(attribute.name)}: its type is {attribute.kind}, which is no "
            "number; leave "
            f"it out with drop (--drop {shortened(attribute.name, quotes=False)})."
        )


def _features(header: Header, rows: Rows, places: Sequence[int]) -> tuple[Any, tuple[str, ...] | None]:
    """The features and their names; a nominal attribute of several values becomes a column for each."""
    if not places:
        return None, None
    attributes = [header.attributes[place] for place in places]
    names: list[str] = []
    blocks: list[Any] = []
    run: list[int] = []

    def end_run() -> None:
        if run:
            blocks.append(rows.values[:, list(run)])
            run.clear()

    for place, attribute in zip(places, attributes, strict=True):
        if attribute.is_one_feature and not (rows.is_sparse and attribute.default):
            run.append(place)
            names.append(attribute.name)
            continue
        end_run()
        column = rows.column(place, attribute)
        if attribute.is_one_feature:
            block = column[:, None]
            names.append(attribute.name)
        else:
            block = (column[:, None] == np.array(list(attribute.codes.values()))).astype(np.float64)
            names.extend(attribute.feature_names)
        blocks.append(sp.csc_array(block) if rows.is_sparse else block)
    end_run()
    if not rows.is_sparse:
        return np.ascontiguousarray(np.hstack(blocks)), tuple(names)
    X = sp.csr_array(sp.hstack(blocks, format="csr"))
    X.eliminate_zeros()
    return X, tuple(names)


def _check_complete(path: PathLike, rows: Rows, place: int, attribute: Attribute, advice: str) -> None:
    if rows.is_sparse:
        stored = slice(*rows.values.indptr[place : place + 2])
        missing, at = np.isnan(rows.values.data[stored]), rows.values.indices[stored]
    else:
        missing, at = np.isnan(rows.values[:, place]), np.arange(len(rows.lines))
    if not missing.any():
        return
    line = rows.lines[at[missing].min()]
    if advice == _WHICH_LABELS:
        # Without a list of labels they are taken for features, of which a ? is not the fault.
        raise DataFileError(f"{path}: {advice}")
    raise DataFileError(
        f"{path}, line {line}, attribute {shortened(attribute.name)}: '?' is a missing value. {advice}"
    )


def _labels(
    path: PathLike, header: Header, rows: Rows, places: Sequence[int], binary: bool
) -> ObservedLabels:
    """Every entry is known, an absent one too, except for those that are ``?``."""
    n, L = len(rows.lines), len(places)
    entries: list[Any] = []
    values: list[Any] = []
    unknown: list[Any] = []
    for number, place in enumerate(places):
        attribute = header.attributes[place]
        column = _label_column(path, rows, attribute, rows.column(place, attribute), binary)
        missing = np.isnan(column)
        unknown.append(np.flatnonzero(missing) * L + number)
        column[missing] = 0.0
        stored = np.flatnonzero(column)
        entries.append(stored * L + number)
        values.append(column[stored])
    labels = ObservedLabels.from_sparse(
        sp.csr_array((np.concatenate(values), np.divmod(np.concatenate(entries), L)), shape=(n, L)),
        "negative",
        label_names=[header.attributes[place].name for place in places],
        binary=binary,
    )
    known = np.ones(n * L, dtype=np.bool_)
    known[np.concatenate(unknown)] = False
    return replace(labels if known.all() else labels.select(known), unobserved="missing")


def _label_column(path: PathLike, rows: Rows, attribute: Attribute, codes: Floats, binary: bool) -> Floats:
    """The labels of one attribute, NaN where missing."""
    advice = "A label is 1 or 0, true or false, yes or no; what is not known is ?."
    if attribute.is_number:
        values = codes.copy()
    else:
        words = [number_of(value) for value in attribute.values]
        if any(word is None or np.isnan(word) for word in words):
            listed = ", ".join(shortened(value, quotes=False) for value in attribute.values[:10])
            raise DataFileError(
                f"{path}, attribute {shortened(attribute.name)}: its values are {listed}. {advice}"
            )
        missing = np.isnan(codes)
        values = np.array(words, dtype=np.float64)[np.where(missing, 0, codes).astype(np.int64)]
        values[missing] = np.nan
    wrong = ~(np.isnan(values) | (values == 0) | (values == 1))
    if binary and wrong.any():
        row = int(np.argmax(wrong))
        raise DataFileError(
            f"{path}, line {rows.lines[row]}, attribute {shortened(attribute.name)}: {values[row]:g} is no "
            "label. "
            f"{advice}"
        )
    return values


# -- the XML file of Mulan --------------------------------------------------------------------------------


def read_label_names(path: PathLike) -> tuple[str, ...]:
    """The names of all ``<label name="...">`` elements, nested ones too, in any namespace."""
    with open_errors(path):
        data = Path(path).read_bytes()
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(" ")[2].rpartition(":")[2].lower() != "label":
            return
        if "name" not in attributes:
            raise DataFileError(f"{path}, line {parser.CurrentLineNumber}: a label without a name.")
        names.append(attributes["name"])

    def refuse(*_: object) -> None:
        raise DataFileError(
            f"{path}, line {parser.CurrentLineNumber}: a document type or entity, which is not read; "
            "remove it."
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    # Entities can grow without end, or fetch other files; without a document type there are none.
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise DataFileError(f"{path}, line {error.lineno}: no well-formed XML ({error}).") from error
    except DataFileError:
        raise
    except (LookupError, ValueError) as error:
        # Codecs are looked up by the name that the file gives.
        raise DataFileError(
            f"{path}, line 1: its encoding cannot be read ({error}); save the file as UTF-8."
        ) from error
    if not names:
        raise DataFileError(f'{path} names no labels; each is an element <label name="...">.')
    return tuple(names)
