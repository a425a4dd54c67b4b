"""What the estimators on a cluster have in common: they stand for one of one machine, with a client."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from labelgap.exceptions import InvalidParameterError

# Parameters that say where the work is done, and that the estimator for one machine does not have.
_OWN = ("client",)


class OnCluster(BaseEstimator):  # type: ignore[misc]
    """An estimator whose parameters are some of those of one for one machine, and ``client``."""

    stands_for: ClassVar[type]
    """The estimator for one machine."""
    instead: ClassVar[dict[str, str]] = {}
    """What to do in place of parameters that are not offered, where there is something better to say."""

    n_jobs = 1
    """Fits share the rounds of the cluster; there is nothing to divide on the client."""

    def __new__(cls, *arguments: Any, **given: Any) -> Self:
        """Refuse parameters that only the estimator for one machine has, by name."""
        one_machine = inspect.signature(cls.stands_for).parameters
        offered = inspect.signature(cls.__init__).parameters
        for name in given:
            if name in one_machine and name not in offered:
                local = cls.stands_for.__name__
                otherwise = f"Leave it out, or fit {local} to as much of the data as one machine holds."
                raise InvalidParameterError(
                    f"{name} is not offered on a cluster; {local} has it, on one machine. "
                    f"{cls.instead.get(name, otherwise)}"
                )
        made: Self = super().__new__(cls)
        return made

    def __sklearn_clone__(self) -> Self:
        # A client is shared, not copied.
        return type(self)(**self.get_params(deep=False))

    def _for_one_machine(self) -> Any:
        """The estimator for one machine with the same parameters, not fitted."""
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in _OWN}
        return self.stands_for(**parameters)

    def _take_attributes(self, local: Any) -> None:
        """The fitted attributes of the model for one machine, here too."""
        local.interrupted_ = False
        for name, value in vars(local).items():
            if name.endswith("_") and not name.startswith("_") and name != "interrupted_":
                setattr(self, name, value)
