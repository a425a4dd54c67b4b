// The models side by side, at their own thresholds and at their best.

function showCompare() {
  if (models.length < 2) return;
  show("compare");
  const select = make("select", { id: "compare-axis" });
  const place = byId("compare-chart");
  place.before(make("div", { class: "chart-head" }, make("label", {}, "Across ", select)));
  const redraw = responsive(place, (width) => drawCompared(width, axis));
  let axis = fillAxes(select, axesOf(models), "fraction", (value) => {
    axis = value;
    redraw();
  });
  watchers.metric.push(() => {
    redraw();
    fillCompared();
  });
}

function fillCompared() {
  const rows = models.map((one) => {
    const curve = one.sweep.curve(chosen.metric);
    const best = bestPlace(curve);
    const number = (value, text, id) => make("span", { text, "data-value": exact(value), "data-key": id });
    return { value: curve[one.own], cells: [
      nameOf(one.name), number(curve[one.own], fixed(curve[one.own]), "own"), number(one.thresholds[one.own], fixed(one.thresholds[one.own], 3), "theta"),
      number(one.fractions[one.own], percent(one.fractions[one.own], 2), "fraction"), number(curve[best], fixed(curve[best]), "best"), number(one.thresholds[best], fixed(one.thresholds[best], 3), "best-theta"),
    ] };
  });
  const body = table(byId("compare-table"), ["model", `${chosen.metric.name} at own θ`, "own θ", "fraction of yes", "best on this data", "at θ"], rows.map(({ cells }) => cells));
  const top = Math.max(...rows.map(({ value }) => value));
  rows.forEach(({ value }, at) => body.children[at].classList.toggle("winner", value === top));
}

function drawCompared(width, axis) {
  const curves = models.map((one) => one.sweep.curve(chosen.metric));
  const [low, high] = axisRange(axis, models);
  const [bottom, top] = curveRange(curves);
  const style = (at) => ({ color: COLORS[at % COLORS.length], dash: DASHES[at % DASHES.length] });
  const chart = lineChart(width, {
    series: models.map((one, at) => {
      const places = AXES[axis].of(one);
      return { ...style(at), points: Array.from(curves[at], (value, k) => [places[k], value]), dots: [[places[one.own], curves[at][one.own], 6]] };
    }),
    x: { low, high, name: AXES[axis].name }, y: { low: bottom, high: top, name: chosen.metric.name },
    label: `${chosen.metric.name} of ${plural(models.length, "model")} against the threshold; the table above has the figures.`,
  });
  return [chart.svg, keyOf([...models.map((one, at) => ({ name: one.name, ...style(at) })), { name: "at the model’s own θ", color: "grey", dot: true }])];
}
