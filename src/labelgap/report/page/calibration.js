// Predictions against what was observed, in bins, with even axes or with axes that spread out small numbers.

function showCalibration() {
  const decisions = figures.kind === "decisions";
  const found = decisions ? figures.calibration : figures.regression.reliability;
  if (!found) return;
  show("calibration");
  byId("calibration-title").textContent = decisions ? "Do the probabilities mean what they say?" : "Do the predictions mean what they say?";
  const error = decisions ? percent(found.error, 2) : short(found.error, 4);
  const example = figures.rare ? "1\u00a0%" : "70\u00a0%";
  byId("calibration-say").textContent = decisions
    ? `Of the entries given a probability of ${example}, about ${example} should be a yes: then the dots lie on the line. On average they are ${error} away from it (the expected calibration error). A vertical line through a dot is the 95\u00a0% interval of its bin, if entries are independent.`
    : `Of the entries with one prediction, the mean value should be that prediction: then the dots lie on the line. On average they are ${error} away from it.`;
  byId("calibration-say").dataset.value = exact(found.error);
  const select = byId("calibration-scale");
  const redraw = responsive(byId("calibration-chart"), (width) => drawCalibration(width, found, select.value));
  const scales = calibrationScales(found, decisions);
  select.replaceChildren(...scales.map((scale) => option(scale, { even: "even axes", logit: "log-odds (logit)", log: "logarithmic axes" }[scale])));
  select.value = scales[0];
  select.addEventListener("change", redraw);
  select.closest(".chart-head").hidden = scales.length < 2;
  table(byId("calibration-table"),
    ["predictions", "entries", "mean", decisions ? "observed yes" : "mean value"],
    found.bins.map((bin) => [`${short(toNumber(bin.lowest))} to ${short(toNumber(bin.highest))}`, whole(bin.count), small(bin.predicted), small(bin.observed)]));
}

// Four places, or three digits of what these would round to nothing.
function small(value) {
  return value === 0 || Math.abs(value) >= 0.001 ? fixed(value) : short(value);
}

// The scales that can be chosen, the one to begin with first: rare labels have probabilities near 0, which even
// axes draw on top of each other; so do counts that span orders of magnitude.
function calibrationScales(found, decisions) {
  if (decisions) {
    const spread = found.bins.some((bin) => bin.predicted > 0 && bin.predicted < 1);
    if (!spread) return ["even"];
    const near = found.bins.filter((bin) => Math.min(bin.predicted, 1 - bin.predicted) < 0.1).length;
    return figures.rare || near > found.bins.length / 2 ? ["logit", "even"] : ["even", "logit"];
  }
  const all = found.bins.flatMap((bin) => [bin.predicted, bin.observed]);
  if (!all.every((value) => value > 0)) return ["even"];
  return Math.max(...all) > 50 * Math.min(...all) ? ["log", "even"] : ["even", "log"];
}

function drawCalibration(width, { bins, error }, scale) {
  const decisions = figures.kind === "decisions";
  const shown = Math.min(width, 640);
  const inside = (value) => scale === "even" || (value > 0 && (scale === "log" || value < 1));
  const axis = calibrationRange(bins, scale, inside);
  const { low, high } = axis;
  const on = bins.filter((bin) => inside(bin.observed));
  const dots = bins.map((bin) => [bin.predicted, bin.observed, 5.5, !inside(bin.observed),
    `predicted ${small(bin.predicted)}, observed ${small(bin.observed)}, ${plural(bin.count, "entry")}`]);
  const chart = lineChart(shown, {
    series: [
      { points: [[low, low], [high, high]], color: "grey", dash: "dashed" },
      {
        points: on.map((bin) => [bin.predicted, bin.observed]), color: "blue", dots,
        bars: decisions ? bins.map((bin) => [bin.predicted, bin.low, bin.high]) : [],
      },
    ],
    height: Math.min(400, shown * 0.8),
    x: { ...axis, name: decisions ? "predicted probability of yes" : "mean prediction" },
    y: { ...axis, name: decisions ? "observed fraction of yes" : "mean value" },
    label: `Reliability diagram with ${bins.length} bins; mean distance from the diagonal ${error < 0.001 ? short(error) : fixed(error)}.`,
  });
  chart.svg.style.maxWidth = `${shown}px`;
  const made = figures.rare && decisions ? "observed, in bins: half with equally many entries, half with equally many expected yes" : "observed, in bins of equally many entries";
  const key = [{ name: made, color: "blue", dot: true }, { name: "as it should be", color: "grey", dash: "dashed" }];
  if (on.length < bins.length) key.splice(1, 0, { name: `${bins.some((bin) => bin.observed === 0) ? "no yes" : "only yes"} in the bin, drawn at the edge`, color: "blue", dot: true, hollow: true });
  return [chart.svg, keyOf(key)];
}

function calibrationRange(bins, scale, inside) {
  const all = bins.flatMap((bin) => [bin.predicted, bin.observed]).filter(inside);
  const smallest = Math.min(...all), largest = Math.max(...all);
  if (scale === "even") return figures.kind === "decisions" ? { low: 0, high: 1 } : { low: smallest, high: largest };
  if (scale === "log") return { low: smallest, high: largest, log: true };
  // A margin in odds, so that no dot lies on the frame unless its bin has one class.
  const odds = (p, by) => (p * by) / (1 - p + p * by);
  return { low: odds(smallest, 0.6), high: odds(largest, 1 / 0.6), logit: true };
}
