"""Tables that commands write: to a file, whole or not at all, or to standard output, block by block."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from labelgap.cli.choices import refuse
from labelgap.cli.session import STANDARD_INPUT, Session
from labelgap.data.files import check_writable, detect_format, write_column_blocks
from labelgap.exceptions import DataFileError
from labelgap.persistence.atomic import atomic_write

Block: TypeAlias = dict[str, Any]
"""Columns of some rows, by name; all blocks of a table have the same ones."""
_SEPARATORS = {"csv": ",", "tsv": "\t"}
# What stands for a stream that is open already, also where the shell has redirected it to a file.
_STREAMS = ("/dev/fd", "/proc/self/fd")
_STANDARD_STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr")
# A tab or a carriage return in front does not keep a spreadsheet from reading a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def check_output(
    session: Session,
    path: Path | None,
    force: bool,
    option: str = "--out",
    *,
    inputs: Iterable[Path | None] = (),
) -> None:
    """Raise before the work begins if the file could not be written at its end.

    ``inputs`` are the files that the command reads; none of them is replaced, with --force neither.
    """
    if path is None:
        return
    if path.is_dir():
        raise DataFileError(f"{path} is a folder; {option} takes the name of a file.")
    _refuse_input(path, inputs, option)
    if _is_stream(path):
        raise DataFileError(
            f"{path} is a device or a pipe, and {option} takes the name of a file, which appears when it is "
            "complete. Write a file, and let the next program read that."
        )
    if path.exists() and not force:
        raise DataFileError(f"{path} exists already. Say --force to replace it, or choose another {option}.")
    folder = path.parent
    if not folder.is_dir():
        raise DataFileError(f"{path}: there is no folder {folder}; make it first.")
    if not os.access(folder, os.W_OK):
        raise DataFileError(f"{path}: this user may not write in the folder {folder}.")
    session.will_write(path)


def check_table_output(
    session: Session,
    path: Path | None,
    force: bool,
    option: str = "--out",
    *,
    inputs: Iterable[Path | None] = (),
) -> None:
    """As :func:`check_output`, for a table, whose name must say a format that can be written."""
    check_output(session, path, force, option, inputs=inputs)
    if path is not None:
        check_writable(path)


def _is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, or names the file of an open stream as /dev/stdout does."""
    if path.exists() and not path.is_file():
        return True
    named = path.absolute()
    return any(named.is_relative_to(folder) for folder in _STREAMS) or str(named) in _STANDARD_STREAMS


def _refuse_input(path: Path, inputs: Iterable[Path | None], option: str) -> None:
    """Raise if the file is one that the command reads, under this name or another."""
    for given in inputs:
        read = STANDARD_INPUT if str(given) == "-" else given
        if read is not None and path.exists() and read.exists() and path.samefile(read):
            raise DataFileError(
                f"{path} is read by this command, and what it holds would be lost. Choose another file for "
                f"{option}; --force does not allow this."
            )


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """A name for the column of ids that no other column has.

    Examples
    --------
    >>> free_name("id", ["a", "b"]), free_name("row", ["row", "row_id"])
    ('id', 'row_id_2')
    """
    others = set(taken)
    names = chain([wanted, "row_id"], (f"row_id_{number}" for number in count(2)))
    return next(name for name in names if name not in others)


def refuse_twice(names: Sequence[str], advice: str) -> None:
    """Raise if two columns would have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataFileError(f"Two columns would be called {name!r}. {advice}")
        seen.add(name)


def refuse_unguarded(path: Path | None, guarded: bool) -> None:
    """Raise if --spreadsheet-safe is asked for a file that is no text."""
    refuse(
        guarded and path is not None and detect_format(path) not in _SEPARATORS,
        "--spreadsheet-safe",
        "it is about CSV and TSV, which spreadsheets search for formulas",
    )


def guard(value: Any) -> Any:
    """A text with an apostrophe in front if a spreadsheet would take it for a formula; others as they are.

    Examples
    --------
    >>> guard("=1+1"), guard("-x"), guard("film"), guard(-1.5)
    ("'=1+1", "'-x", 'film', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_blocks(
    path: Path | None, names: Sequence[str], blocks: Iterable[Block], guarded: bool = False
) -> None:
    """Write a table under these names; None is CSV to standard output.

    It goes out block by block, except that an npz file is written from all of it at once. With ``guarded``,
    texts that a spreadsheet would take for formulas get an apostrophe.
    """
    if guarded:
        blocks = (_guarded(names, block) for block in blocks)
        names = [guard(name) for name in names]
    separator = "," if path is None else _SEPARATORS.get(detect_format(path))
    if path is not None and (separator is None or path.suffix.lower() == ".gz"):
        write_column_blocks(path, ({name: block[name] for name in names} for block in _some(names, blocks)))
        return
    # The first block is made before anything is written: an error at the start then leaves no partial table.
    blocks = iter(blocks)
    first = next(blocks, None)
    with _text(path) as file:
        writer = csv.writer(file, delimiter=separator or ",", lineterminator="\n")
        writer.writerow(names)
        for block in chain([] if first is None else [first], blocks):
            writer.writerows(zip(*(_values(block[name]) for name in names), strict=True))


@contextmanager
def _text(path: Path | None) -> Iterator[Any]:
    if path is None:
        # In UTF-8 like all files, whatever the encoding of the terminal.
        sys.stdout.flush()
        wrapper = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="", write_through=False)
        try:
            yield wrapper
            wrapper.flush()
        finally:
            wrapper.detach()
        return
    with atomic_write(path) as binary:
        wrapper = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        yield wrapper
        wrapper.flush()
        wrapper.detach()


def _guarded(names: Sequence[str], block: Block) -> Block:
    return {guard(name): [guard(one) for one in _values(block[name])] for name in names}


def _values(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _some(names: Sequence[str], blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, or one without rows where there is none."""
    there = False
    for block in blocks:
        there = True
        yield block
    if not there:
        yield {name: np.zeros(0) for name in names}
