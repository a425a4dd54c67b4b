"""Does a test notice when the source is wrong? Small mistakes, drawn at random, and whether they are caught.

``python -m tests.mutations`` draws a hundred mutations in each of the rooms below: one comparison, operator,
constant, condition or statement of a function. The room's tests run once, which says what each of them
calls. Then every mutation is tried in a process of its own, forked from that one: the mutated function takes
the place of the right one, and the tests that call it run, until one fails. What no test notices survives.
Nothing is written into the source.

    python -m tests.mutations --rooms thresholds metrics --number 20 --store mutations.json

What was stored before is read first: a mutation meets the test that caught it then before the others.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import gc
import importlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "labelgap"
# The files that are mutated, and the tests that are asked, in this order. Kernels for a GPU need one.
ROOMS = {
    "thresholds": ("thresholds/*.py", ("thresholds", "decisions")),
    "certificate": ("solvers/certificate.py", ("solvers",)),
    "metrics": ("metrics/*.py", ("metrics",)),
    "kernels": (
        "kernels/*.py",
        ("thresholds", "decisions", "objective", "recommending", "losses"),
    ),
    "labels": ("labels/*.py", ("test_labels.py", "test_stratified_splits.py", "test_bad_input.py", "data")),
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_BROKEN = "the trial itself failed: "
_NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}


class Mutation(NamedTuple):
    """What stands instead of the text between two places of a file; the lines of the function around it."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str
    # The first and the last line of the function; of the statement, for a constant of the module.
    first: int
    last: int
    constant: str | None

    @property
    def key(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{self.line}:{self.start}: {self.before} -> {self.after}"

    @property
    def mutated(self) -> str:
        source = self.path.read_bytes()
        return (source[: self.start] + self.after.encode() + source[self.end :]).decode()


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """This node with one small mistake, in every way that there is."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            new.ops = [_COMPARISONS[type(operator)]()]
            yield new
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _OPERATORS:
            new.op = _OPERATORS[type(operator)]()
            yield new
        case ast.BoolOp(op=operator):
            new.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield new.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2.0 * value if value else 1.0)
        case ast.Name(id=name) if name in _NAMES:
            yield ast.Name(_NAMES[name])
        case ast.Attribute(attr=name) if name in _NAMES:
            new.attr = _NAMES[name]
            yield new
        case ast.If(test=condition) if not isinstance(condition, ast.Compare):
            yield ast.UnaryOp(ast.Not(), condition)
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _runs(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below that do something: no annotations, defaults, messages, nor what type checkers read."""
    match node:
        case ast.AnnAssign():
            children = [node.value] if node.value is not None else []
        case ast.FunctionDef():
            children = list(node.body)
        case ast.JoinedStr() | ast.Raise() | ast.ClassDef():
            children = []
        case _:
            children = list(ast.iter_child_nodes(node))
    for child in children:
        yield child
        yield from _runs(child)


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, int, str | None]]:
    """What can be replaced in a running process: functions, methods and plain constants of the module."""
    for node in tree.body:
        match node:
            case ast.FunctionDef():
                yield node, min(one.lineno for one in (node, *node.decorator_list)), None
            case ast.ClassDef():
                for one in node.body:
                    if isinstance(one, ast.FunctionDef):
                        yield one, min(part.lineno for part in (one, *one.decorator_list)), None
            case (
                ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr())
            ):
                calls = any(isinstance(one, ast.Call | ast.Subscript | ast.Lambda) for one in _runs(node))
                if not name.startswith("__") and not calls:
                    yield node, node.lineno, name


def mutations_of(path: Path) -> list[Mutation]:
    """Every mutation of a file."""
    source = path.read_bytes()
    starts = [0, *(found.end() for found in re.finditer(b"\n", source))]
    found = []
    for whole, first, constant in _places(ast.parse(source)):
        for node in _runs(whole):
            for changed in _changed(node):
                place = node.test if isinstance(node, ast.If) else node
                start = starts[place.lineno - 1] + place.col_offset
                end = starts[place.end_lineno - 1] + place.end_col_offset
                before, after = " ".join(source[start:end].decode().split()), ast.unparse(changed)
                if not isinstance(place, ast.stmt):
                    after = f"({after})"
                new = Mutation(
                    path, place.lineno, start, end, before, after, first, whole.end_lineno, constant
                )
                found.append(new)
    return found


def _code_at(code: CodeType, line: int) -> CodeType | None:
    """The code of the function that begins at this line."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    found = [one for one in inner if one.co_firstlineno == line and not one.co_name.startswith("<")]
    return found[0] if found else next(filter(None, (_code_at(one, line) for one in inner)), None)


def _function_code(source: str, mutation: Mutation) -> CodeType | None:
    return _code_at(compile(source, str(mutation.path), "exec"), mutation.first)


def drawn(room: str, number: int, seed: int) -> list[Mutation]:
    """Mutations of a room, drawn at random."""
    every = [one for path in sorted(PACKAGE.glob(ROOMS[room][0])) for one in mutations_of(path)]
    random.Random(f"{room} {seed}").shuffle(every)
    found: list[Mutation] = []
    for one in every:
        if len(found) == number:
            break
        if one.constant is None:
            right, wrong = (_function_code(text, one) for text in (one.path.read_text("utf-8"), one.mutated))
            # Code that closes over other names cannot take the place of a running function's.
            if right is None or wrong is None or right.co_freevars != wrong.co_freevars:
                continue
        found.append(one)
    return found


def _with_their_kernel(path: Path) -> set[str]:
    """The modules of kernels whose compiled code holds functions of this file."""
    sources = {one.stem: one.read_text("utf-8") for one in (PACKAGE / "kernels").glob("*.py")}
    found, waiting = set(), [path.stem] if path.parent.name == "kernels" else []
    while waiting:
        name = waiting.pop()
        found.add(name)
        uses = re.compile(rf"^from labelgap\.kernels(\.{name} import | import .*\b{name}\b)", re.MULTILINE)
        waiting += [other for other, text in sources.items() if other not in found and uses.search(text)]
    return found


def _callers(modules: set[str]) -> set[str]:
    """The files that name one of these modules of kernels."""
    names = "|".join(sorted(modules))
    uses = re.compile(
        rf"labelgap\.kernels\.({names})\b|\bkernels\.({names})\.|labelgap\.kernels import .*\b({names})\b"
    )
    return {str(path) for path in PACKAGE.rglob("*.py") if uses.search(path.read_text("utf-8"))}


class Trial:
    """A plugin for pytest that runs the tests once, and then every mutation against those that meet it."""

    def __init__(self, mutations: list[Mutation], n_jobs: int, limit: int, before: dict[str, str]) -> None:
        self.mutations, self.n_jobs, self.limit, self.before = mutations, n_jobs, limit, before
        self.caught: dict[str, str] = {}
        self._seen: set[CodeType] = set()
        # The functions, as file and first line, that the preparation of a module's tests and each test call.
        self._called: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._seconds: dict[str, float] = {}

    def _taken(self) -> set[tuple[str, int]]:
        # Taken away first: this function is seen, too.
        seen, self._seen = self._seen, set()
        return {(one.co_filename, one.co_firstlineno) for one in seen if str(PACKAGE) in one.co_filename}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._taken()
        yield
        self._called[str(item.path)] |= self._taken()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._taken()
        yield
        self._called[item.nodeid] |= self._taken()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        def note(frame: Any, event: str, _: Any) -> None:
            if event == "call":
                self._seen.add(frame.f_code)

        sys.setprofile(note)
        threading.setprofile(note)
        good, failing = [], []
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            start = time.monotonic()
            reports = runtestprotocol(item, log=False, nextitem=following)
            self._seconds[item.nodeid] = time.monotonic() - start
            if all(report.passed for report in reports):
                good.append(item)
            elif any(report.failed for report in reports):
                failing.append(item.nodeid)
        sys.setprofile(None)
        threading.setprofile(None)
        # Tests may have frozen what they saw; functions are looked for among all objects.
        gc.unfreeze()
        self._functions: dict[tuple[str, int], list[FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            # Not isinstance, which asks a weak reference for what it stands for.
            if type(thing) is FunctionType and str(PACKAGE) in thing.__code__.co_filename:
                self._functions[thing.__code__.co_filename, thing.__code__.co_firstlineno].append(thing)
        self._remembering = [
            thing
            for thing in gc.get_objects()
            if type(thing) is functools._lru_cache_wrapper and "labelgap" in thing.__module__
        ]
        print(f"{len(good)} tests in {sum(self._seconds.values()):.0f} s", flush=True)
        if failing:
            print(f"{len(failing)} fail without a mutation and are left out, the first {failing[0]}")
        self._try_all(good)
        return True

    def _selected(self, items: list[pytest.Item], mutation: Mutation) -> list[pytest.Item]:
        """The tests that call what is mutated, quick modules first; before them what caught it last time."""
        compiled = _with_their_kernel(mutation.path)
        files = _callers(compiled) if compiled else set()
        if mutation.constant is not None:
            files = files | {str(mutation.path)}

        def meets(calls: set[tuple[str, int]]) -> bool:
            return any(
                file in files or (file == str(mutation.path) and mutation.first <= line <= mutation.last)
                for file, line in calls
            )

        modules = {path for path, calls in self._called.items() if "::" not in path and meets(calls)}
        found = [item for item in items if str(item.path) in modules or meets(self._called[item.nodeid])]
        seconds: dict[Path, float] = defaultdict(float)
        for item in found:
            seconds[item.path] += self._seconds[item.nodeid]
        known = self.before.get(mutation.key, "")
        return sorted(found, key=lambda item: (item.nodeid != known, seconds[item.path], str(item.path)))

    def _put_in_place(self, mutation: Mutation) -> None:
        name = f"labelgap.{'.'.join(mutation.path.relative_to(PACKAGE).with_suffix('').parts)}"
        if mutation.constant is not None:
            module = importlib.import_module(name.removesuffix(".__init__"))
            right = getattr(module, mutation.constant)
            tree = ast.parse(mutation.mutated)
            statement = [one for one in tree.body if one.lineno == mutation.first]
            exec(compile(ast.Module(statement, []), str(mutation.path), "exec"), vars(module))
            wrong = getattr(module, mutation.constant)
            for other in list(sys.modules.values()):
                if getattr(other, "__name__", "").startswith("labelgap"):
                    for key, value in list(vars(other).items()):
                        if key == mutation.constant and value is right:
                            setattr(other, key, wrong)
        else:
            code = _function_code(mutation.mutated, mutation)
            assert code is not None
            for function in self._functions[str(mutation.path), mutation.first]:
                function.__code__ = code
        for remembering in self._remembering:
            remembering.cache_clear()
        for kernel in _with_their_kernel(mutation.path):
            from numba.core.caching import NullCache
            from numba.core.dispatcher import Dispatcher

            for thing in vars(importlib.import_module(f"labelgap.kernels.{kernel}")).values():
                if isinstance(thing, Dispatcher):
                    # Compiled anew where it is called, and kept by nobody.
                    thing._make_finalizer()()
                    thing._reset_overloads()
                    thing._cache = NullCache()

    def _child(self, mutation: Mutation, items: list[pytest.Item], answer: Path) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._put_in_place(mutation)
        for item, following in zip(items, [*items[1:], None], strict=False):
            # The default of this signal ends the process: a kernel that runs for ever hears no other.
            signal.alarm(self.limit)
            reports = runtestprotocol(item, log=False, nextitem=following)
            if any(report.failed for report in reports):
                answer.write_text(item.nodeid, encoding="utf-8")
                return
        answer.write_text("", encoding="utf-8")

    def _try_all(self, items: list[pytest.Item]) -> None:
        waiting = self.mutations[::-1]
        running: dict[int, tuple[Mutation, Path, float]] = {}
        with tempfile.TemporaryDirectory() as folder:
            while waiting or running:
                while waiting and len(running) < self.n_jobs:
                    mutation, answer = waiting.pop(), Path(folder) / str(len(waiting))
                    sys.stdout.flush()
                    child = os.fork()
                    if child == 0:
                        try:
                            with open(os.devnull, "w") as nowhere:
                                os.dup2(nowhere.fileno(), 1)
                                os.dup2(nowhere.fileno(), 2)
                            self._child(mutation, self._selected(items, mutation), answer)
                        except BaseException:
                            answer.write_text(_BROKEN + traceback.format_exc(), encoding="utf-8")
                        finally:
                            os._exit(0)
                    running[child] = mutation, answer, time.monotonic()
                child, _ = os.wait()
                mutation, answer, started = running.pop(child)
                caught = answer.read_text("utf-8") if answer.exists() else "the tests did not end"
                if caught.startswith(_BROKEN):
                    raise RuntimeError(f"{mutation.key} could not be tried: {caught}")
                self.caught[mutation.key] = caught
                print(
                    f"{len(self.caught)}/{len(self.mutations)} {time.monotonic() - started:5.1f} s  "
                    f"{caught or 'SURVIVED':60.60s} {mutation.key}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS))
    parser.add_argument("--number", type=int, default=100, help="mutations in each room (100)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws others (0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument(
        "--limit", type=int, default=60, help="seconds for one test; more counts as caught (60)"
    )
    parser.add_argument("--store", type=Path, help="a file in JSON for the results; it is read first")
    given = parser.parse_args()
    os.chdir(ROOT)
    # This copy of the package, whichever is installed.
    sys.path.insert(0, str(PACKAGE.parent))
    stored = json.loads(given.store.read_text("utf-8")) if given.store and given.store.exists() else {}
    failed = False
    for room in given.rooms:
        # A process for each room: what one leaves behind does not meet the next.
        child = os.fork()
        if child == 0:
            trial = Trial(
                drawn(room, given.number, given.seed), given.jobs, given.limit, stored.get(room, {})
            )
            tests = [f"tests/{name}" for name in ROOMS[room][1]]
            pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins=[trial])
            whole = len(trial.caught) == len({one.key for one in trial.mutations})
            n_caught = sum(map(bool, trial.caught.values()))
            print(f"{room}: {n_caught} of {len(trial.caught)} caught", flush=True)
            if given.store and whole:
                stored[room] = trial.caught
                given.store.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
            os._exit(0 if whole else 1)
        failed = failed or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
        if given.store and given.store.exists():
            stored = json.loads(given.store.read_text("utf-8"))

    raise SystemExit(failed)


if __name__ == "__main__":
    main()
