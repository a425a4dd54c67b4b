// The path of the fit and its singular values.

function showFit() {
  const { fit } = figures;
  if (!fit) return;
  show("fit");
  byId("penalties").textContent =
    `The model was fitted to all of its data with the penalties ${fit.penalties_in_words}.`;
  showHistory(fit);
  showSpectrum(fit.singular_values.map(toNumber));
  showCandidates(fit);
}

function showHistory(fit) {
  const steps = fit.history.map((step) => ({ ...step, objective: toNumber(step.objective), gap: toNumber(step.gap) }));
  if (!steps.length) return;
  const select = byId("fit-axis");
  const seconds = () => select.value === "seconds";
  const last = steps[steps.length - 1];
  const x = () => (seconds()
    ? { low: 0, high: toNumber(last.seconds) || 1, name: "seconds" }
    : { low: steps[0].iteration, high: last.iteration, name: "step", whole: true });
  const points = (key, some) => some.map((step) => [step[select.value], step[key]]);
  const objectives = steps.map((step) => step.objective);
  const redrawObjective = responsive(byId("objective"), (width) => {
    const low = Math.min(...objectives), high = Math.max(...objectives), margin = (high - low) * 0.08;
    const all = points("objective", steps);
    return [lineChart(width, {
      series: [{ points: all, color: "blue", dots: dotsOf(all) }], height: 240, x: x(), y: { low: low - margin, high: high + margin, name: "objective" },
      label: `The objective falls from ${short(objectives[0], 4)} to ${short(objectives[objectives.length - 1], 6)} in ${plural(last.iteration, "step")}.`,
    }).svg];
  });
  const positive = steps.filter((step) => step.gap > 0);
  const redrawGap = responsive(byId("gap"), (width) => {
    if (!positive.length) return [make("p", { class: "hint", text: "The gap is 0: the optimum was reached exactly." })];
    const gaps = positive.map((step) => step.gap), tol = toNumber(fit.tol);
    // A tol of 0 has no place on a logarithmic axis.
    const levels = tol > 0 ? [...gaps, tol] : gaps;
    const all = points("gap", positive);
    const chart = lineChart(width, {
      series: [
        { points: all, color: "green", dots: dotsOf(all) },
        ...(tol > 0 ? [{ points: lineAt(x(), tol), color: "grey", dash: "dashed" }] : []),
      ],
      height: 240, x: x(), y: { low: Math.min(...levels), high: Math.max(...levels), log: true, name: "gap, as a fraction of the objective" },
      label: `The relative duality gap falls from ${short(gaps[0])} to ${short(gaps[gaps.length - 1])}; the fit stops at ${short(tol)}.`,
    });
    return [chart.svg, keyOf([{ name: "gap", color: "green" }, { name: `where the fit may stop (tol = ${short(tol)})`, color: "grey", dash: "dashed" }])];
  });
  select.addEventListener("change", () => {
    redrawObjective();
    redrawGap();
  });
  tableOnDemand("history-table", () => [
    ["step", "seconds", "objective", "relative gap", "rank"],
    steps.map((step) => [whole(step.iteration), short(step.seconds), short(step.objective, 8), short(step.gap), whole(step.rank)]),
  ]);
}

// From one end of the axis to the other; an axis of a single step reaches beyond it.
function lineAt({ low, high }, value) {
  return high > low ? [[low, value], [high, value]] : [[low - 1, value], [high + 1, value]];
}

function dotsOf(points) {
  return points.length > 40 ? [] : points.map(([px, py]) => [px, py, 3.5]);
}

function showSpectrum(values) {
  if (!values.length) {
    byId("spectrum-part").hidden = true;
    return;
  }
  responsive(byId("spectrum"), (width) => [barChart(width, {
    values, color: "purple", x: "pattern", y: "singular value", tick: (i) => String(i + 1), tip: (i) => `pattern ${i + 1}: ${short(values[i], 5)}`,
    label: `${plural(values.length, "singular value")}, from ${short(values[0])} down to ${short(values[values.length - 1])}.`,
  })]);
  tableOnDemand("spectrum-table", () => [["pattern", "singular value"], values.map((value, i) => [String(i + 1), short(value, 6)])]);
}
