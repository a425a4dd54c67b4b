"""A checkpoint in memory, which remembers every snapshot."""

from __future__ import annotations

import numpy as np

from labelgap.solvers.loop import Checkpoint, fit_from, fit_state


class Memory(Checkpoint):
    """Keeps every snapshot and every finished part, as copies; ``start`` is what an earlier run left."""

    def __init__(self, start=None, fits=None, stop_after=np.inf):
        super().__init__()
        self.snapshots = []
        self.fits = {} if fits is None else fits
        self._start, self._stop_after, self._asked, self._name = start, stop_after, 0, ""

    def stopping(self):
        self._asked += 1
        return self._asked > self._stop_after

    def last(self):
        return self._start

    def snapshot(self, state, *, at_once=False):
        self.snapshots.append({name: np.array(array, order="C") for name, array in state.items()})

    def part(self, name):
        part = Memory(fits=self.fits)
        part._name = f"{self._name}/{name}"
        return part

    def fit(self, solve):
        if self._name not in self.fits:
            self.fits[self._name] = fit_state(solve(checkpoint=self))
        return fit_from({name: np.array(array) for name, array in self.fits[self._name].items()})


def bits(fit):
    state = fit_state(fit)
    # The clock is not a part of the model.
    state["history"] = state["history"][:, :4]
    return {name: array.tobytes() for name, array in state.items()}
