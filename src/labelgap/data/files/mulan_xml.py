"""The XML file of Mulan, which says which attributes of an ARFF file are labels."""

from __future__ import annotations

from pathlib import Path
from xml.parsers import expat

from labelgap.data.files.formats import PathLike, open_errors
from labelgap.exceptions import DataFileError


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
            "take it out."
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    # Entities can grow without end, or fetch other files; without a document type there are none.
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise DataFileError(f"{path}, line {error.lineno}: no well-formed XML ({error}).") from error
    if not names:
        raise DataFileError(f'{path} names no labels; each is an element <label name="...">.')
    return tuple(names)
