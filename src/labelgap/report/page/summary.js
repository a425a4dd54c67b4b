// The heading: what was judged, how good it is, and what is proved.

function tile(title, value, more, exactValue, first = false) {
  const big = make("span", { class: "big", text: value, "data-value": exactValue });
  const lines = more ? [big, make("span", { class: "more", text: more })] : [big];
  return make("div", { class: first ? "tile first" : "tile" }, make("dt", {}, ...[].concat(title)), make("dd", {}, ...lines));
}

// Rounded up, for it is a bound.
function gapText(fit) {
  const gap = 100 * toNumber(fit.relative_gap);
  return `${Math.ceil(Math.max(gap, 0) * 100) / 100}\u00a0%`;
}

function decisionTiles(tiles, lead) {
  const main = figures.models[0];
  const metric = figures.metrics[0];
  const theta = toNumber(main.threshold);
  const probability = model.probabilities ? model.probabilities[model.own] : NaN;
  const at = Number.isNaN(probability) ? "" : `, a probability of ${short(probability)},`;
  lead.append(
    `The model says yes where the score is at least θ = ${short(theta, 4)}${at ? ` (${at.slice(2, -1)})` : ""}. `,
    `On the ${plural(figures.data.n_observed, "observed entry")} given here that makes a ${metric.name} of ${fixed(main.value, 3)}.`);
  const name = make("bdi", { text: metric.name });
  tiles.append(tile([name, " at the model’s θ"], fixed(main.value), `${spanOf(main.interval)}best on this data: ${fixed(main.best_value)}`, exact(main.value), true));
  tiles.append(...heldOutTile(metric.name));
}

// The 95 % interval of a figure, where it has one.
function spanOf(interval) {
  return interval ? `95\u00a0%: ${fixed(interval[0])} to ${fixed(interval[1])}; ` : "";
}

function heldOutTile(name) {
  const found = figures.fit ? figures.fit.held_out : null;
  const value = found ? toNumber(found.value) : NaN;
  if (Number.isNaN(value)) return [];
  const corrected = figures.fitted_to === "unlabelled";
  const more = corrected ? "corrected for unrecorded positives; not comparable with the other figures" : `${spanOf(found.interval)}on held-out ${found.of}, a little too good`;
  return [tile(`${corrected ? "corrected " : ""}${name} in the fit`, fixed(value), more, exact(value))];
}

function regressionTiles(tiles, lead) {
  const found = figures.regression;
  lead.append(
    `A ${found.family} model of values that are numbers. On the ${plural(figures.data.n_observed, "observed entry")} given here it `,
    `explains ${percent(toNumber(found.explained))} of what a constant per ${words.label} leaves unexplained.`);
  tiles.append(
    tile("D², fraction explained", fixed(toNumber(found.explained)), `${spanOf(found.interval)}1 is perfect, 0 is a constant`, exact(toNumber(found.explained)), true),
    ...heldOutTile("D²"),
    tile("mean deviance", short(toNumber(found.deviance), 4), "misfit of an entry; lower is better", exact(toNumber(found.deviance))));
}

// Lists are what a recommender that counts silence was fitted for.
function listTile() {
  const { ranking } = figures;
  const row = ranking && ranking.rows.find(({ name }) => name.startsWith("NDCG"));
  if (!row || row.model === null) return [];
  const popularity = row.popularity === null ? "" : `popularity alone: ${fixed(row.popularity)}`;
  return [tile(`${row.name} of lists`, fixed(row.model), popularity, exact(row.model))];
}

function showSummary() {
  document.title = figures.title;
  byId("title").textContent = figures.title;
  byId("eyebrow").textContent = words.model;
  const tiles = byId("tiles"), lead = byId("lead");
  (figures.kind === "decisions" ? decisionTiles : regressionTiles)(tiles, lead);
  const { fit, data } = figures;
  tiles.append(...listTile());
  if (fit) {
    tiles.append(
      tile("rank", whole(fit.rank), "simple patterns that make up the model", String(fit.rank)),
      tile("duality gap", gapText(fit), `proved within ${gapText(fit)} of the optimum`, exact(toNumber(fit.relative_gap))));
  }
  tiles.append(tile("observed entries", whole(data.n_observed), `${percent(data.fraction)} of ${whole(data.n_rows)}\u00a0×\u00a0${whole(data.n_labels)}`, String(data.n_observed)));
  if (figures.kind === "decisions") {
    tiles.append(tile("known to be yes", percent(figures.n_positive / data.n_observed), `${whole(figures.n_positive)} of them`, String(figures.n_positive)));
  }
  byId("judged").textContent = judgedNote();
  const ended = fit ? endedNote(fit) : "";
  byId("ended").textContent = ended;
  byId("ended").hidden = !ended;
}

// What the reader must know of a fit that did not come to its end.
function endedNote(fit) {
  const still = `the optimum may be up to ${gapText(fit)} lower than its objective, and a gap of ${short(100 * toNumber(fit.tol))}\u00a0% was asked for`;
  return {
    interrupted: `The fit was interrupted: this model is what there was by then. For the penalties that it had come to, ${still}.`,
    short: `The fit stopped before it was done: ${still}. Allow it more iterations (max_iter), or a larger tol.`,
    capped: `The rank stands at its cap of ${fit.rank_cap}, which keeps the gap open: the optimum over all ranks may be up to ${gapText(fit)} lower than the objective. More than that the cap does not cost.`,
  }[fit.ended] || "";
}

function judgedNote() {
  const parts = [
    `This page judges the ${plural(figures.data.n_rows, words.row)} that were handed to it, and of those only the observed entries.`,
    `If the model was fitted to the same ${words.row === "user" ? "ratings" : "rows"}, the figures are too good, because it has seen the labels: judge on data that it has not seen.`,
  ];
  const decisions = figures.kind === "decisions";
  const heldOut = figures.fit ? figures.fit.held_out : null;
  if (heldOut && !Number.isNaN(toNumber(heldOut.value))) parts.push(`The figure of the fit is ${heldOut.answers}; those of this page say how well its own ${words.row}s are predicted.`);
  if (figures.absent_is_no) parts.push("An absent entry is read as a no, as in the fit, and is judged like a known one.");
  if (figures.fitted_to === "unlabelled") {
    parts.push("The model was fitted to recorded positives alone, with a metric corrected for those not recorded. The figures here are of known labels, so they are not comparable with those of the fit.");
  }
  if (figures.data.weighted) parts.push(decisions ? "Entries have weights, and every count below adds up weights." : "Entries have weights, and every mean below is weighted.");
  if (!decisions && figures.regression.has_offsets) parts.push("Predictions contain the offsets or exposures that were given with the values.");
  if (figures.n_left_out) {
    const one = figures.n_left_out === 1;
    parts.push(`${plural(figures.n_left_out, "recorded like")} of the fit ${one ? "is left out: it is" : "are left out: they are"} a yes whatever the score.`);
  }
  if (decisions && !canInstance) {
    parts.push(`There are too many entries to keep each one in the page, so averages over ${words.row}s (instance metrics) are left out; all others are exact.`);
  }
  return parts.join(" ");
}
