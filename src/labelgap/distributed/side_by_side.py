"""Fits that run side by side: what they ask the cluster for at a time is answered in one round.

A fit waits for each of its rounds, and the workers wait for the fit while it thinks. Fits of several folds,
or with several choices of penalties, do not depend on one another. Each has a thread of the client, and when
all of them wait, one round answers all: a task for each partition does the work of all fits. So there are as
few rounds as the longest fit has, and a partition that lies on the disk is read once for all of them. The
answers are those of rounds of their own, to the last bit, since each is added up alone.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from labelgap.exceptions import ClusterError

# Seconds for which those that wait let another fit think.
_PATIENCE = 0.2


class Work(NamedTuple):
    """What is asked of every partition: a function, and what it is given beside the partition."""

    function: Callable[..., Any]
    shared: tuple[Any, ...]


class _Asked:
    """One question of a fit, and its answer once it is there."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.answer: Any = None
        self.error: BaseException | None = None
        self.done = False


class Meeting:
    """Collects the questions of fits in threads; the thread that opened it asks the cluster.

    Only that thread talks to the cluster: it is the one that Ctrl-C interrupts.
    """

    def __init__(self, ask: Callable[[Sequence[Work]], Sequence[Any]]) -> None:
        self._ask, self._change = ask, threading.Condition()
        self._waiting: list[_Asked] = []
        self._at_work = 0
        self._closed: BaseException | None = None

    def sum(self, work: Work) -> Any:
        """The answer to a question, in a thread of a fit."""
        asked = _Asked(work)
        with self._change:
            self._waiting.append(asked)
            self._change.notify_all()
            self._change.wait_for(lambda: asked.done or self._closed is not None)
        if asked.error is not None:
            raise asked.error
        if not asked.done:
            raise ClusterError("The fits beside this one were ended.") from self._closed
        return asked.answer

    def run(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of the jobs, in order. An error of one ends all of them."""
        results: list[Any] = [None] * len(jobs)
        errors: list[BaseException | None] = [None] * len(jobs)
        self._at_work = len(jobs)

        def work(number: int) -> None:
            token = _meeting.set(self)
            try:
                results[number] = jobs[number]()
            except BaseException as error:
                errors[number] = error
            finally:
                _meeting.reset(token)
                with self._change:
                    self._at_work -= 1
                    if errors[number] is not None and self._closed is None:
                        self._closed = errors[number]
                    self._change.notify_all()

        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(work, number), daemon=True)
            for number in range(len(jobs))
        ]
        for thread in threads:
            thread.start()
        try:
            while self._answer_all():
                pass
        except BaseException as error:
            with self._change:
                self._closed = error
                self._change.notify_all()
            raise
        finally:
            for thread in threads:
                thread.join()
        if self._closed is not None:
            raise self._closed
        return results

    def _answer_all(self) -> bool:
        """Wait until every fit waits, and answer; False where no fit is at work any more.

        A fit that thinks for long is not waited for.
        """
        with self._change:
            while True:
                asked_before = len(self._waiting)
                met = self._change.wait_for(
                    lambda: self._closed is not None or len(self._waiting) == self._at_work, _PATIENCE
                )
                if self._closed is not None or not self._at_work:
                    return False
                if met or 0 < len(self._waiting) == asked_before:
                    break
            asked, self._waiting = self._waiting, []
        answers = self._ask([one.work for one in asked])
        with self._change:
            for one, answer in zip(asked, answers, strict=True):
                one.answer, one.done = answer, True
            self._change.notify_all()
        return True


_meeting: contextvars.ContextVar[Meeting | None] = contextvars.ContextVar("labelgap_meeting", default=None)


def the_meeting() -> Meeting | None:
    """The meeting that this thread takes part in, if any."""
    return _meeting.get()
