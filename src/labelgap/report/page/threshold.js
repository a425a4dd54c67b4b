// The curve, the slider, and what they say at the chosen threshold.

function valueAt(one, k) {
  return one.sweep.curve(chosen.metric)[k];
}

function curveRange(curves) {
  let low = 0, high = 0;
  for (const curve of curves) for (const value of curve) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high <= 1 ? Math.min(1, high * 1.06) || 1 : high * 1.06];
}

function showThreshold() {
  show("threshold");
  show("live");
  chosen.axis = fillAxes(byId("axis"), axesOf([model]), firstAxis(), (axis) => {
    chosen.axis = axis;
    redraw();
  });
  const slider = byId("slider");
  slider.max = String(model.thresholds.length - 1);
  slider.addEventListener("input", () => setThreshold(Number(slider.value)));
  byId("go-best").addEventListener("click", () => setThreshold(bestPlace(model.sweep.curve(chosen.metric))));
  byId("go-model").addEventListener("click", () => setThreshold(model.own));
  const readout = makeReadout(byId("readout"));
  let chart = null;
  const redraw = responsive(byId("curve"), (width) => {
    chart = drawCurve(width);
    placeMarks(chart);
    return [chart.svg];
  });
  const refreshTable = tableOnDemand("curve-table", curveTable);
  watchers.metric.push(() => {
    redraw();
    refreshTable();
    const curve = model.sweep.curve(chosen.metric);
    const best = bestPlace(curve);
    byId("best-note").textContent = `Best: ${fixed(curve[best])} at θ = ${short(model.thresholds[best], 4)}`;
    byId("best-note").dataset.value = exact(curve[best]);
  });
  watchers.k.push(() => {
    slider.value = String(chosen.k);
    readout();
    slider.setAttribute("aria-valuetext", `θ ${fixed(model.thresholds[chosen.k], 3)}, ${chosen.metric.name} ${fixed(valueAt(model, chosen.k))}`);
    byId("live").textContent = `θ ${fixed(model.thresholds[chosen.k], 2)} · ${chosen.metric.name} ${fixed(valueAt(model, chosen.k), 3)}`;
    if (chart) placeMarks(chart);
  });
}

// Rare positives have small probabilities, which only the scores spread out.
function firstAxis() {
  const at = model.probabilities ? model.probabilities[model.own] : NaN;
  // A link that ends at 0 and 1 says nothing of a θ beyond its ends.
  const clipped = Number.isFinite(model.thresholds[model.own]) && (at === 0 || at === 1);
  return model.probabilities && !figures.rare && !clipped ? "probability" : "score";
}

function fillAxes(select, axes, first, changed) {
  const text = { probability: "probability", score: "score", fraction: "fraction of yes" };
  select.replaceChildren(...axes.map((axis) => option(axis, text[axis])));
  select.value = first;
  select.addEventListener("change", () => changed(select.value));
  return first;
}

function drawCurve(width) {
  const curve = model.sweep.curve(chosen.metric);
  const places = AXES[chosen.axis].of(model);
  const [low, high] = axisRange(chosen.axis, [model]);
  const [bottom, top] = curveRange([curve]);
  const points = Array.from(curve, (value, k) => [places[k], value]);
  if (chosen.axis === "fraction") points.reverse();
  const best = bestPlace(curve);
  const chart = lineChart(width, {
    series: [{ points, color: "blue", under: true }],
    x: { low, high, name: AXES[chosen.axis].name },
    y: { low: bottom, high: top, name: chosen.metric.name },
    label: `${chosen.metric.name} against the threshold; best ${fixed(curve[best])} at θ ${short(model.thresholds[best], 4)}, ` +
      `${fixed(curve[model.own])} at the model’s θ ${short(model.thresholds[model.own], 4)}.`,
  });
  followPointer(chart, places);
  return chart;
}

function placeMarks(chart) {
  const places = AXES[chosen.axis].of(model);
  chart.marks.replaceChildren();
  if (chosen.k !== model.own) markAt(chart, places[model.own], { color: "grey", text: "model’s θ", dash: "dashed", level: 1 });
  markAt(chart, places[chosen.k], {
    color: "orange", text: chosen.k === model.own ? "model’s θ" : "θ", dot: valueAt(model, chosen.k),
  });
}

function nearest(places, value) {
  let best = 0;
  for (let k = 1; k < places.length; k++) {
    if (Math.abs(places[k] - value) < Math.abs(places[best] - value)) best = k;
  }
  return best;
}

function followPointer(chart, places) {
  const { svg } = chart;
  svg.classList.add("aim");
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    return nearest(places, chart.x.back(((event.clientX - box.left) / box.width) * chart.width));
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    setThreshold(under(event));
  });
  svg.addEventListener("pointermove", (event) => {
    const k = under(event);
    if (event.buttons) setThreshold(k);
    showTip(chart, places[k], `θ ${fixed(model.thresholds[k], 3)}: ${fixed(valueAt(model, k))}`);
  });
  svg.addEventListener("pointerleave", () => byId("curve").querySelector(".tip")?.remove());
}

function showTip(chart, value, text) {
  const place = byId("curve");
  let tip = place.querySelector(".tip");
  if (!tip) {
    tip = make("div", { class: "tip", "aria-hidden": "true" });
    place.append(tip);
  }
  tip.textContent = text;
  const at = chart.x.at(value);
  tip.style.top = "0";
  tip.style.left = `${Math.min(Math.max(at - tip.offsetWidth / 2, 0), chart.width - tip.offsetWidth)}px`;
}

function makeReadout(panel) {
  const out = (id, tag = "span") => make(tag, { id: `out-${id}` });
  const set = (node, text, value) => {
    node.textContent = text;
    node.dataset.value = exact(value);
  };
  const value = out("metric", "p"), what = make("p", { class: "what" });
  value.className = "value";
  const theta = out("theta"), probability = out("probability"), fraction = out("fraction");
  const counts = Object.fromEntries(["tp", "fp", "fn", "tn"].map((key) => [key, out(key)]));
  const cell = (key, kind, text) => make("td", { class: kind }, counts[key], make("small", { text }));
  const pairs = make("dl", { class: "pairs" }, make("dt", { text: "θ as a score" }), make("dd", {}, theta));
  if (model.probabilities) pairs.append(make("dt", { text: "as a probability" }), make("dd", {}, probability));
  pairs.append(make("dt", { text: "fraction of yes" }), make("dd", {}, fraction));
  const head = make("tr", {}, make("td", { class: "corner" }), make("th", { scope: "col", text: "decided yes" }), make("th", { scope: "col", text: "decided no" }));
  panel.append(what, value, pairs, make("table", { class: "confusion", "aria-label": "Right and wrong decisions" },
    make("thead", {}, head),
    make("tbody", {},
      make("tr", {}, make("th", { scope: "row", text: "truly yes" }), cell("tp", "right", "true positives"), cell("fn", "wrong", "false negatives")),
      make("tr", {}, make("th", { scope: "row", text: "truly no" }), cell("fp", "wrong", "false positives"), cell("tn", "right", "true negatives")))));
  return () => {
    const { k, metric } = chosen;
    what.textContent = metric.name;
    set(value, fixed(valueAt(model, k)), valueAt(model, k));
    set(theta, fixed(model.thresholds[k]), model.thresholds[k]);
    if (model.probabilities) set(probability, fixed(model.probabilities[k]), model.probabilities[k]);
    set(fraction, percent(model.fractions[k], 2), model.fractions[k]);
    for (const key of ["tp", "fp", "fn", "tn"]) set(counts[key], amount(model.sweep.micro[key][k]), model.sweep.micro[key][k]);
  };
}

// About this many rows of the curve as a table, and always both ends, the model's θ and the best.
const MOST_ROWS = 120;

function curveTable() {
  const { tp, fp, fn, tn } = model.sweep.micro;
  const every = Math.ceil(model.thresholds.length / MOST_ROWS);
  const best = bestPlace(model.sweep.curve(chosen.metric)), end = model.thresholds.length - 1;
  const places = new Set([model.own, best, end]);
  for (let k = 0; k <= end; k += every) places.add(k);
  const note = (k) => [k === model.own ? "model’s θ" : "", k === best ? "best" : ""].filter(Boolean).join(", ");
  const rows = [...places].sort((a, b) => a - b).map((k) => [
    fixed(model.thresholds[k]) + (note(k) ? ` (${note(k)})` : ""), fixed(valueAt(model, k)), percent(model.fractions[k], 2), ...[tp, fp, fn, tn].map((c) => amount(c[k])),
  ]);
  return [["θ", chosen.metric.name, "fraction of yes", "TP", "FP", "FN", "TN"], rows];
}
