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
    `On the ${whole(figures.data.n_observed)} observed cells given here that makes a ${metric.name} of ${fixed(main.value, 3)}.`);
  const name = make("bdi", { text: metric.name });
  tiles.append(tile([name, " at the model’s θ"], fixed(main.value), `best on this data: ${fixed(main.best_value)}`, exact(main.value), true));
  const heldOut = figures.fit ? toNumber(figures.fit.held_out_metric) : NaN;
  if (!Number.isNaN(heldOut)) tiles.append(tile(`${metric.name} in the fit`, fixed(heldOut), "on cells held out; a little too good", exact(heldOut)));
}

function regressionTiles(tiles, lead) {
  const found = figures.regression;
  lead.append(
    `A ${found.family} model of answers that are numbers. On the ${whole(figures.data.n_observed)} observed cells given here it `,
    `explains ${percent(toNumber(found.explained))} of what a constant per ${words.label} leaves unexplained.`);
  tiles.append(
    tile("D², share explained", fixed(toNumber(found.explained)), "1 is perfect, 0 is a constant", exact(toNumber(found.explained)), true),
    tile("mean deviance", short(toNumber(found.deviance), 4), "misfit of a cell; lower is better", exact(toNumber(found.deviance))));
}

function showSummary() {
  document.title = figures.title;
  byId("title").textContent = figures.title;
  byId("eyebrow").textContent = words.model;
  const tiles = byId("tiles"), lead = byId("lead");
  (figures.kind === "decisions" ? decisionTiles : regressionTiles)(tiles, lead);
  const { fit, data } = figures;
  if (fit) {
    tiles.append(
      tile("rank", whole(fit.rank), "simple patterns that make up the model", String(fit.rank)),
      tile("duality gap", gapText(fit), `proved within ${gapText(fit)} of the optimum`, exact(toNumber(fit.relative_gap))));
  }
  tiles.append(tile("observed cells", whole(data.n_observed), `${percent(data.share)} of ${whole(data.n_rows)}\u00a0×\u00a0${whole(data.n_labels)}`, String(data.n_observed)));
  if (figures.kind === "decisions") {
    tiles.append(tile("known to be yes", percent(figures.n_positive / data.n_observed), `${whole(figures.n_positive)} of them`, String(figures.n_positive)));
  }
  byId("judged").textContent = judgedNote();
}

function judgedNote() {
  const parts = [
    `This page judges the ${plural(figures.data.n_rows, words.row)} that were handed to it, and of those only the observed cells.`,
    `If the model was fitted to the same ${words.row === "user" ? "answers" : "rows"}, the figures are too good, as it has seen the answers: judge on data that it has not seen.`,
  ];
  if (figures.data.weighted) parts.push("Cells have weights, and every count below adds up weights.");
  if (figures.n_left_out) parts.push(`${plural(figures.n_left_out, "recorded like")} of the fit are left out: they are a yes whatever their score.`);
  if (figures.kind === "decisions" && !canInstance) {
    parts.push(`There are too many cells to keep each one in the page, so averages over ${words.row}s (instance metrics) are left out; all others are exact.`);
  }
  return parts.join(" ");
}
