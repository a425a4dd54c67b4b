"""Fits to ratings that are certified to a duality gap, against a fixed number of LightFM's epochs.

A certified fit says how far its objective is from the best of any rank; LightFM's epochs come with no such
number. Both predict the same held-out ratings.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.generated_ratings import log_loss, make_split
from benchmarks.harness import Line, Options, Report, take_turns
from benchmarks.one_bit import RANK, WEIGHTING, fit_recommender, labelgap_labels, labelgap_scores
from benchmarks.rivals import lightfm_logistic

EPOCHS = 30
# λ|Ω|, about what a default fit chooses at this size.
STRENGTH = 12.0
# The relative gap, and the most time for it as a multiple of that of LightFM's epochs.
TARGETS = ((1e-2, 4.0), (1e-3, 10.0))


def run(options: Options) -> Report:
    """One size: that of MovieLens-1M."""
    report = Report(
        "certified",
        "Ratings, to a certified gap",
        f"One fit of a Recommender at λ|Ω| = {STRENGTH:g} and count_weighting={WEIGHTING:g}, with the solver "
        'that "auto" picks, to a relative duality gap; beside it '
        f"{EPOCHS} epochs of LightFM (logistic, {RANK} components). Log-loss of held-out ratings.",
    )
    shape, n_ratings = ((600, 400), 30_000) if options.quick else ((6040, 3952), 1_000_000)
    split = make_split(shape, n_ratings)
    labels = labelgap_labels(split.train)
    size = f"{shape[0]:,} x {shape[1]:,}, {n_ratings:,} ratings"
    found: dict[str, Any] = {}

    def keep(name: str, fit: Any) -> None:
        found[name] = fit()

    jobs = {
        f"{gap:g}": partial(keep, f"{gap:g}", partial(fit_recommender, labels, STRENGTH, tol=gap))
        for gap, _ in TARGETS
    }
    absent = lightfm_logistic.unavailable()
    if absent is None:
        fit = partial(
            lightfm_logistic.fit,
            lightfm_logistic.prepare(split.train),
            rank=RANK,
            epochs=EPOCHS,
            threads=options.threads,
            ridge=0.0,
            rate=0.05,
        )
        jobs["lightfm"] = partial(keep, "lightfm", fit)
    else:
        report.remarks.append(absent)
    fit_recommender(labels, STRENGTH, tol=0.3)  # compiles
    seconds = take_turns(jobs, options.repeats, warm_up=False)
    if "lightfm" in found:
        loss = log_loss(lightfm_logistic.scores(found["lightfm"], split.held_out), split.held_out.values)
        note = f"log-loss {loss:.4f}"
        report.lines.append(Line(f"LightFM, {EPOCHS} epochs", size, seconds["lightfm"], note=note))
    for gap, most in TARGETS:
        model, own = found[f"{gap:g}"], seconds[f"{gap:g}"]
        loss = log_loss(labelgap_scores(model, split.held_out), split.held_out.values)
        note = f"gap {model.relative_gap_:.1e}, rank {model.rank_}, log-loss {loss:.4f}"
        line = Line(f"labelgap to a gap of {gap:g}", size, own, note=note)
        if "lightfm" in found:
            ratio = own / seconds["lightfm"]
            line = replace(
                line,
                ratio=ratio,
                against=f"x {EPOCHS} epochs of LightFM",
                target=f"≤ {most:g}",
                met=ratio <= most,
            )
        report.lines.append(line)
    return report
