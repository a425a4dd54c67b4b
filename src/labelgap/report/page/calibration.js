// Predictions against what was observed, in bins of about equally many entries.

function showCalibration() {
  const decisions = figures.kind === "decisions";
  const found = decisions ? figures.calibration : figures.regression.reliability;
  if (!found) return;
  show("calibration");
  byId("calibration-title").textContent = decisions ? "Do the probabilities mean what they say?" : "Do the predictions mean what they say?";
  const error = decisions ? percent(found.error, 2) : short(found.error, 4);
  byId("calibration-say").textContent = decisions
    ? `Of the entries given a probability of 70 %, about 70 % should be a yes: then the dots lie on the line. On average they are ${error} away from it (the expected calibration error).`
    : `Of the entries with one prediction, the mean value should be that prediction: then the dots lie on the line. On average they are ${error} away from it.`;
  byId("calibration-say").dataset.value = exact(found.error);
  const dots = found.bins.map((bin) => [bin.predicted, bin.observed]);
  const all = dots.flat();
  const low = decisions ? 0 : Math.min(...all), high = decisions ? 1 : Math.max(...all);
  const name = decisions ? "predicted probability of yes" : "mean prediction";
  responsive(byId("calibration-chart"), (width) => {
    const shown = Math.min(width, 640);
    const chart = lineChart(shown, {
      series: [
        { points: [[low, low], [high, high]], color: "grey", dash: "dashed" },
        { points: dots, color: "blue", dots: dots.map(([px, py]) => [px, py, 5.5]) },
      ],
      height: Math.min(400, shown * 0.8), x: { low, high, name }, y: { low, high, name: decisions ? "observed fraction of yes" : "mean value" },
      label: `Reliability diagram with ${found.bins.length} bins; mean distance from the diagonal ${error}.`,
    });
    chart.svg.style.maxWidth = `${shown}px`;
    return [chart.svg, keyOf([{ name: "observed, in bins of equally many entries", color: "blue", dot: true }, { name: "as it should be", color: "grey", dash: "dashed" }])];
  });
  table(byId("calibration-table"),
    ["predictions", "entries", "mean", decisions ? "observed yes" : "mean value"],
    found.bins.map((bin) => [`${short(toNumber(bin.lowest))} to ${short(toNumber(bin.highest))}`, whole(bin.count), fixed(bin.predicted), fixed(bin.observed)]));
}
