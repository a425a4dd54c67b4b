"""From options to estimators and metrics. An option that would have no effect is wrong usage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from labelgap import LowRankClassifier, LowRankRegressor, Recommender
from labelgap.cli.options import Average, Purpose, Setting
from labelgap.kernels.gpu.device import check_device, torch_device
from labelgap.metrics import get_metric
from labelgap.metrics.formula import looks_like_formula

# The options of `fit`, by the parameter of the estimator that they set.
_COMMON = ("rank", "trace_penalty", "ridge_penalty", "tol", "n_jobs", "device", "forget")
_DECISIONS = ("metric", "loss", "unobserved", "flip_rate", "threshold")
PARAMETERS = {
    Setting.features: (
        *_COMMON,
        *_DECISIONS,
        "feature_map",
        "label_weighting",
        "thresholds",
        "subject_to",
        "calibration",
        "memory",
        "soft_labels",
    ),
    Setting.recommender: (*_COMMON, *_DECISIONS, "positive", "dislike_value", "aggregate", "half_life"),
    Setting.regression: (*_COMMON, "family", "feature_map", "memory"),
}
# The parameters of estimators that options of other names set: --features names columns.
_PARAMETER_NAMES = {"feature_map": "features"}
# Options about the file that have a meaning in some settings only.
_COLUMNS = ("labels", "features", "id", "drop", "label_file", "categorical", "impute", "separator")
_RATING_COLUMNS = ("user", "item", "value", "time")
FILE_OPTIONS = {
    Setting.features: (*_COLUMNS, "without_data"),
    Setting.recommender: (
        *_RATING_COLUMNS,
        *("items", "users", "items_encoding", "users_encoding", "for", "lists"),
    ),
    Setting.regression: (*_COLUMNS, "without_data"),
}
_ESTIMATORS: dict[Setting, Any] = {
    Setting.features: LowRankClassifier,
    Setting.recommender: Recommender,
    Setting.regression: LowRankRegressor,
}
# Options that only a recommender has a use for, so that they suggest one.
_OF_RATINGS = (
    *_RATING_COLUMNS,
    *("positive", "items", "users", "for", "dislike_value", "lists", "aggregate", "half_life"),
)
_OPTION_NAMES = {"n_jobs": "--jobs"}


def choose_setting(asked: Setting, given: Mapping[str, Any], *, ratings_file: bool) -> Setting:
    """The setting that was asked for, or the one that the options and the file suggest.

    Parameters
    ----------
    asked : Setting
    given : mapping from the names of options to their values, None for those not given
    ratings_file : bool
        Whether the file says that it holds ratings of users.

    Examples
    --------
    >>> choose_setting(Setting.auto, {"family": "poisson"}, ratings_file=False).value
    'regression'
    """
    if asked is not Setting.auto:
        return asked
    if ratings_file or any(given.get(name) is not None for name in _OF_RATINGS):
        return Setting.recommender
    return Setting.regression if given.get("family") is not None else Setting.features


def _chosen_by(setting: Setting, given: Mapping[str, Any]) -> str | None:
    """The option that suggests this setting, if one does."""
    suggest = {Setting.recommender: _OF_RATINGS, Setting.regression: ("family",)}.get(setting, ())
    return next((option_name(name) for name in suggest if given.get(name) is not None), None)


def refuse_unused(setting: Setting, given: Mapping[str, Any], *, asked: bool = False) -> None:
    """Wrong usage if an option was given that this setting has no use for.

    ``asked`` is whether --setting chose it, and not another option or the file.
    """
    chosen_by = None if asked else _chosen_by(setting, given)
    used = (*PARAMETERS[setting], *FILE_OPTIONS[setting])
    for name, value in given.items():
        if value is not None and name not in used:
            takers = [
                other.value for other in PARAMETERS if name in (*PARAMETERS[other], *FILE_OPTIONS[other])
            ]
            chosen, out = (
                ("", "it") if chosen_by is None else (f", which {chosen_by} chose", "one of the two")
            )
            raise typer.BadParameter(
                f"it has no use in the setting {setting.value!r}{chosen}; it is for {' and '.join(takers)}. "
                f"Leave {out} out, or choose another --setting.",
                param_hint=f"'{option_name(name)}'",
            )


def refuse(given: bool, option: str, why: str) -> None:
    """Wrong usage if an option was given that is of no use here."""
    if given:
        raise typer.BadParameter(f"{why}; leave it out.", param_hint=f"'{option}'")


def refuse_rating_columns(
    user: str | None,
    item: str | None,
    value: str | None = None,
    skip_unknown: bool = False,
    unknown: object = None,
    *,
    events: tuple[object, object, object] = (None, None, None),
) -> None:
    """Wrong usage if an option of recommenders was given for another model.

    ``events`` are --aggregate, --time and --half-life.
    """
    columns: dict[str, object] = {"--user": user, "--item": item, "--value": value}
    columns |= zip(("--aggregate", "--time", "--half-life"), events, strict=True)
    for option, given in columns.items():
        refuse(given is not None, option, "it is for a recommender")
    refuse(skip_unknown, "--skip-unknown", "it is for a recommender")
    refuse(unknown is not None, "--unknown", "it is for a recommender")


def refuse_unused_time(time: str | None, aggregate: str | None, half_life: float | None) -> None:
    """Wrong usage if a column of times was given and nothing uses it."""
    why = "times are used by --half-life and --aggregate last; without them it has no use"
    refuse(time is not None and half_life is None and aggregate != "last", "--time", why)


def refuse_table_columns(labels: object = None, label_file: object = None, id_column: object = None) -> None:
    """Wrong usage if an option about label columns was given for a recommender."""
    for option, given in {"--labels": labels, "--label-file": label_file, "--id": id_column}.items():
        refuse(bool(given), option, "a recommender has users and items")


def meaning_of_silence(purpose: Purpose | None, unobserved: str | None) -> str | None:
    """What a pair without a rating means, by what the recommender is for.

    Examples
    --------
    >>> meaning_of_silence(Purpose.recommend, None), meaning_of_silence(Purpose.decide, None)
    ('negative', None)
    """
    if purpose is None:
        return unobserved
    if unobserved is not None:
        raise typer.BadParameter(
            "--for says what a pair without a rating means. Leave --unobserved out, or --for.",
            param_hint="'--for'",
        )
    return "negative" if purpose is Purpose.recommend else None


def option_name(name: str) -> str:
    """The option that sets a parameter.

    >>> option_name("trace_penalty"), option_name("n_jobs")
    ('--trace-penalty', '--jobs')
    """
    return _OPTION_NAMES.get(name, "--" + name.replace("_", "-"))


def use_device(model: Any, device: str | None) -> None:
    """Let a loaded model predict on this device, or say why that cannot be."""
    if device is None:
        return
    refuse(not hasattr(model, "device"), "--device", f"a {type(model).__name__} runs on the CPU")
    check_device(device)
    if device not in ("auto", "cpu"):
        torch_device(device)
    model.set_params(device=device)


def make_model(setting: Setting, given: Mapping[str, Any], seed: int) -> Any:
    """The estimator with what was given, and its own defaults for the rest."""
    chosen = {
        _PARAMETER_NAMES.get(name, name): given[name]
        for name in PARAMETERS[setting]
        if given.get(name) is not None
    }
    if setting is Setting.recommender:
        # Later ratings are read from columns of the same names.
        chosen |= {name: given[name] for name in _RATING_COLUMNS if given.get(name) is not None}
    return _ESTIMATORS[setting](random_state=seed, **chosen)


def number_or(
    word: str, text: str | None, option: str, *, least: float = 0.0, below: float = math.inf
) -> float | str | None:
    """A number from ``least`` on, or the one word that may stand for it.

    Examples
    --------
    >>> number_or("auto", "0.5", "--trace-penalty"), number_or("auto", "auto", "--trace-penalty")
    (0.5, 'auto')
    """
    if text is None or text == word:
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number < below:
        limit = f"a number from {least:g} " + ("on" if math.isinf(below) else f"to below {below:g}")
        raise typer.BadParameter(f"{text!r} is neither {limit} nor {word!r}.", param_hint=f"'{option}'")
    return number


def patterns(given: Sequence[str] | None) -> str | list[str] | None:
    """Names and patterns of columns as the readers take them: one text may hold several with commas.

    Examples
    --------
    >>> patterns(["a,b"]), patterns(["tag_*", "a"]), patterns([])
    ('a,b', ['tag_*', 'a'], None)
    """
    if not given:
        return None
    return given[0] if len(given) == 1 else list(given)


def read_metric(text: str | None, average: Average | None) -> str | None:
    """The name or formula, with the average in front of a formula; raises if there is no such metric.

    Examples
    --------
    >>> read_metric("tp/(tp+fp)", Average.macro)
    'macro: tp/(tp+fp)'
    """
    if average is not None:
        if text is None or not looks_like_formula(text):
            raise typer.BadParameter(
                "it is for a formula; the name of a metric says its average itself, as macro-f1 does.",
                param_hint="'--average'",
            )
        if ":" in text:
            raise typer.BadParameter(
                f"the formula {text!r} says its average already. Leave one of them out.",
                param_hint="'--average'",
            )
        text = f"{average.value}: {text}"
    if text is not None:
        get_metric(text)
    return text
