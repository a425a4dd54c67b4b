"""What there is to tell about a fitted model, as numbers and in words."""

from __future__ import annotations

import math
from typing import Any

from labelgap.estimators.inputs import rank_limit_of, tolerance_of
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import D2_LIMITS, confidence_interval


def describe(model: Any) -> dict[str, Any]:
    """The facts of a fitted model, under names that do not depend on its kind."""
    facts: dict[str, Any] = {"kind": type(model).__name__}
    if hasattr(model, "user_ids_"):
        facts |= {"users": len(model.user_ids_), "items": len(model.item_ids_)}
    else:
        # Texts have no columns to be counted.
        if hasattr(model, "n_features_in_"):
            facts["features"] = int(model.n_features_in_)
        facts["labels"] = int(model.n_labels_)
    metric = "d2" if hasattr(model, "family_") else metric_name(model.metric_)
    limits = D2_LIMITS if hasattr(model, "family_") else model.metric_.limits
    facts["held_out"] = _describe_held_out(model, metric, limits)
    if hasattr(model, "family_"):
        facts["family"] = model.family_.name
    else:
        facts["metric"] = metric
        # Scores of a MetricThreshold need not be probabilities.
        probability = getattr(model, "threshold_probability_", None)
        facts["threshold"] = {
            "score": float(model.threshold_),
            "probability": None if probability is None else float(probability),
        }
        if getattr(model, "thresholds_kind_", "shared") != "shared":
            facts["thresholds"] = {
                "kind": model.thresholds_kind_,
                "lowest": float(model.thresholds_.min()),
                "highest": float(model.thresholds_.max()),
            }
    error = getattr(model, "calibration_error_", None)
    if error is not None:
        facts["calibration"] = {"method": str(model._calibrated_by), **error._asdict()}
    if hasattr(model, "loss"):
        facts["loss"] = str(getattr(getattr(model, "loss_", None), "name", model.loss))
    if (meant := fitted_meaning(model)) is not None:
        facts["unobserved"] = meant
    if getattr(model, "flip_rate_", None) is not None:
        facts["flip_rate"] = model.flip_rate_
    if getattr(model, "feature_map_", None) is not None:
        facts["feature_map"] = _map_in_words(model)
    if getattr(model, "n_implicit_features_", 0):
        facts["implicit_features"] = model.n_implicit_features_
    if getattr(model, "list_settings_", None) is not None:
        facts["lists"] = str(model.list_settings_)
    if getattr(model, "label_weighting_", 0.0):
        facts["label_weighting"] = float(model.label_weighting_)
    if getattr(model, "soft_label_weight_", 0.0):
        facts["soft_label_weight"] = float(model.soft_label_weight_)
    if hasattr(model, "duality_gap_"):
        facts |= {
            "rank": int(model.rank_),
            "penalties": {
                "trace": float(model.trace_penalty_),
                "ridge": float(model.ridge_penalty_),
                "intercept": float(getattr(model, "intercept_penalty_", 0.0)),
            },
            "objective": float(model.objective_),
            "duality_gap": float(model.duality_gap_),
            "relative_gap": float(model.relative_gap_),
            "tol": tolerance_of(model),
            "rank_limit": rank_limit_of(model) if model.rank_limited_ else None,
            "interrupted": bool(getattr(model, "interrupted_", False)),
        }
    return facts


def _describe_held_out(model: Any, metric: str, limits: tuple[float, float]) -> dict[str, Any]:
    """The metric on what was held out, its 95 % interval, and whether that were labels or whole rows."""
    value = getattr(model, "held_out_metric_", None)
    candidates = list(getattr(model, "candidates_", ()))
    by_row = (
        getattr(model, "_holds_out_rows", None)
        or getattr(model, "soft_label_weight_", 0.0) > 0
        # A kernel is compared with other features, and its threshold chosen, on whole rows.
        or (len(candidates) > 0 and candidates[-1].feature_map is not None)
    )
    return {
        "name": metric,
        "value": value,
        "interval": confidence_interval(value, getattr(model, "held_out_error_", None), limits),
        "of": None if value is None else "rows" if by_row else "labels",
    }


def fitted_meaning(model: Any) -> str | None:
    """What an absent entry meant in the fit, as resolved there; None where it has no meaning."""
    meant: str | None = getattr(model, "_unobserved", None) or getattr(model, "_silence", None)
    return meant


def _map_in_words(model: Any) -> str:
    """The map as the search described it, or the class of a transformer that was given."""
    candidates = list(getattr(model, "candidates_", ()))
    words = candidates[-1].feature_map if candidates else None
    return str(words or model.features_)


def metric_name(metric: LinearFractional) -> str:
    """The name of a metric, or its ratio where it has none."""
    return metric.name or f"{metric.average}: {_linear(metric.numerator)} / {_linear(metric.denominator)}"


def _linear(coefficients: Any) -> str:
    terms = " + ".join(
        f"{factor:g}" if name == "const" else f"{factor:g}*{name}" for name, factor in coefficients.items()
    )
    return f"({terms or '0'})"


def in_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts for people, in the order in which they are asked for."""
    lines: list[tuple[str, str]] = [
        (name, str(facts[name])) for name in ("users", "items", "features", "labels") if name in facts
    ]
    if "prepared" in facts:
        lines.insert(len(lines) - 1, ("prepared", facts["prepared"]))
    if "feature_map" in facts:
        lines.append(("feature map", facts["feature_map"]))
    if "implicit_features" in facts:
        count = facts["implicit_features"]
        features = "1 feature" if count == 1 else f"{count} features"
        lines.append(("implicit feedback", f"{features} from which items users have rated"))
    if "lists" in facts:
        lines.append(("lists", facts["lists"]))
    if "family" in facts:
        lines.append(("family", facts["family"]))
    lines.append(_held_out(facts))
    if "threshold" in facts:
        lines.append(("threshold", _threshold(**facts["threshold"])))
    if "thresholds" in facts:
        several = facts["thresholds"]
        span = f"from score {several['lowest']:.4g} to {several['highest']:.4g}"
        lines[-1] = ("thresholds", f"one for each label ({several['kind']}), {span}")
    if "calibration" in facts:
        lines.append(("calibration", _calibration(**facts["calibration"])))
    if "flip_rate" in facts:
        lines.append(("flip rate", _rate(facts["flip_rate"])))
    if "rank" in facts:
        lines += [
            ("rank", str(facts["rank"])),
            ("penalties", penalties_in_words(facts)),
            ("certificate", certificate(facts["relative_gap"], facts["tol"], facts["rank_limit"])),
        ]
    return lines


def penalties_in_words(facts: dict[str, Any]) -> str:
    """The penalties of the fit to all entries, and what else weighs its entries."""
    words = ", ".join(f"{name} {value:.3g}" for name, value in facts["penalties"].items() if value)
    if "label_weighting" in facts:
        words += f"; label weighting {facts['label_weighting']:g}"
    if "soft_label_weight" in facts:
        words += f"; soft labels of weight {facts['soft_label_weight']:g}"
    return words or "none"


def _threshold(score: float, probability: float | None) -> str:
    if math.isinf(score):
        return f"{score}: a {'no' if score > 0 else 'yes'} to everything"
    if probability is None:
        return f"score {score:.4g}"
    return f"probability {probability:.3f} (score {score:.4g})"


def _calibration(method: str, before: float | None, after: float) -> str:
    came_from = "" if before is None else f", {before:.4f} without"
    return f"{method}: expected error {after:.4f} on held-out labels{came_from}"


def _held_out(facts: dict[str, Any]) -> tuple[str, str]:
    found = facts["held_out"]
    name, value = found["name"], found["value"]
    title = "explained" if name == "d2" else name
    if value is None or math.isnan(value):
        return title, "not known: nothing was held out" if "rank" in facts else "not kept"
    rows = "users" if "users" in facts else "rows"
    if name == "d2":
        where = "held-out rows" if found["of"] == "rows" else "held-out values of fitted rows"
        return title, f"{explained_in_words(value, found['interval'])} of the deviance of {where}"
    where = f"held-out {rows}" if found["of"] == "rows" else f"held-out labels of fitted {rows}"
    return title, f"{value_in_words(value, found['interval'])} on {where}"


def what_it_answers(facts: dict[str, Any]) -> str:
    """What the held-out figure of a fit says."""
    row, label = ("user", "rating") if "users" in facts else ("row", "label")
    if "family" in facts:
        label = "value"
    if facts["held_out"]["of"] == "rows":
        return f"on held-out {row}s, which says how well new {row}s are predicted"
    others = f"whose other {label}s were known"
    return f"on held-out {label}s of {row}s {others}, which says how well blanks are filled"


def value_in_words(value: float, interval: tuple[float, float] | None) -> str:
    """A metric with its interval, where it has one.

    Examples
    --------
    >>> value_in_words(0.61, (0.58, 0.64)), value_in_words(1.0, None)
    ('0.6100 (95 %: 0.5800 to 0.6400)', '1.0000')
    """
    return (
        f"{value:.4f}" if interval is None else f"{value:.4f} (95 %: {interval[0]:.4f} to {interval[1]:.4f})"
    )


def explained_in_words(value: float, interval: tuple[float, float] | None) -> str:
    """D² in percent, with its interval.

    Examples
    --------
    >>> explained_in_words(0.31, (0.28, 0.34))
    '31.0 % (95 %: 28.0 % to 34.0 %)'
    """
    low_high = "" if interval is None else f" (95 %: {100 * interval[0]:.1f} % to {100 * interval[1]:.1f} %)"
    return f"{100 * value:.1f} %{low_high}"


def _rate(rate: Any) -> str:
    if hasattr(rate, "__len__"):
        return f"from {min(rate):.3f} to {max(rate):.3f}, one for each label"
    return f"{rate:.3f} of all positives are not recorded"


def certificate(relative_gap: float, tol: float, rank_limit: int | None = None) -> str:
    """What the duality gap proves, in a sentence; ``rank_limit`` is the limit that kept it open, if any.

    Examples
    --------
    >>> certificate(4.2e-4, 1e-3)
    'proved within 0.042 % of the best possible objective (asked for 0.1 %)'
    >>> certificate(0.02, 0.01, 64)
    'proved within 2 % of the best possible objective, short of the 1 % asked for: the rank is limited to 64'
    """
    if not math.isfinite(relative_gap):
        return "nothing is proved about the objective"
    proved = f"proved within {100 * relative_gap:.2g} % of the best possible objective"
    asked = f"{100 * tol:.2g} %"
    if relative_gap <= tol:
        return f"{proved} (asked for {asked})"
    limited = "" if rank_limit is None else f": the rank is limited to {rank_limit}"
    return f"{proved}, short of the {asked} asked for{limited}"
