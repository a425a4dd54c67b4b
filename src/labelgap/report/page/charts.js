// Line and bar charts as SVG, drawn to the width they have and drawn again when it changes.

const MARGIN = { left: 52, right: 14, top: 26, bottom: 42 };

// draws(width) returns the nodes to show.
function responsive(place, draws) {
  const render = () => {
    const width = Math.max(place.clientWidth, 240);
    place.replaceChildren(...draws(width));
  };
  let known = 0;
  new ResizeObserver(() => {
    if (place.clientWidth && place.clientWidth !== known) {
      known = place.clientWidth;
      render();
    }
  }).observe(place);
  return render;
}

function frame(width, height, x, y, names) {
  const { left, right, top, bottom } = MARGIN;
  const axis = draw("g", { class: "axis" });
  for (const tick of y.ticks) {
    const at = y.at(tick);
    axis.append(
      draw("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }),
      draw("text", { x: left - 8, y: at + 4, "text-anchor": "end", text: y.format(tick) }));
  }
  const base = height - bottom;
  axis.append(draw("line", { class: "base", x1: left, x2: width - right, y1: base, y2: base }));
  for (const tick of x.ticks) {
    axis.append(draw("text", { x: x.at(tick), y: base + 17, "text-anchor": "middle", text: x.format(tick) }));
  }
  axis.append(draw("text", { class: "name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", text: names.x }));
  if (names.y) axis.append(draw("text", { class: "name", x: left - 44, y: 11, text: names.y }));
  return axis;
}

function pathOf(points, x, y) {
  let path = "";
  let lastX = NaN, lastY = NaN;
  for (const [px, py] of points) {
    const ax = Math.round(x.at(px) * 10) / 10, ay = Math.round(y.at(py) * 10) / 10;
    if (ax === lastX && ay === lastY) continue;
    path += `${path ? "L" : "M"}${ax} ${ay}`;
    [lastX, lastY] = [ax, ay];
  }
  return path;
}

// spec: {series: [{points, color, dash, dots: [x, y, radius, hollow, text], bars: [x, low, high], under}],
// x, y: {low, high, name, log, logit, whole}, label, height}
function lineChart(width, spec) {
  const height = spec.height || Math.min(340, Math.max(240, width * 0.5));
  const { left, right, top, bottom } = MARGIN;
  const x = makeScale(spec.x, left, width - right, width < 460 ? 4 : 7);
  const y = makeScale(spec.y, height - bottom, top, 5);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.label });
  svg.append(frame(width, height, x, y, { x: spec.x.name, y: spec.y.name }));
  for (const one of spec.series) {
    const color = `c-${one.color}`;
    const path = pathOf(one.points, x, y);
    if (one.under && one.points.length) {
      const first = x.at(one.points[0][0]), last = x.at(one.points[one.points.length - 1][0]);
      svg.append(draw("path", { class: `under ${color}`, d: `${path}L${last} ${height - bottom}L${first} ${height - bottom}Z` }));
    }
    svg.append(draw("path", { class: `line ${color} ${one.dash || ""}`, d: path }));
    for (const [px, from, to] of one.bars || []) svg.append(draw("line", { class: `interval ${color}`, x1: x.at(px), x2: x.at(px), y1: y.at(from), y2: y.at(to) }));
    for (const [px, py, size, hollow, text] of one.dots || []) {
      const dot = draw("circle", { class: `dot ${hollow ? "hollow " : ""}${color}`, cx: x.at(px), cy: y.at(py), r: size || 4 });
      if (text) dot.append(draw("title", { text }));
      svg.append(dot);
    }
  }
  const marks = draw("g", {});
  svg.append(marks);
  return { svg, x, y, marks, height, width };
}

// A vertical line with a word at its top, written on the side where there is space.
function markAt(chart, value, { color, text, dash, level = 0, dot = NaN }) {
  const at = chart.x.at(value);
  const leftward = at > chart.width * 0.62;
  const group = draw("g", { class: `mark c-${color} ${dash || ""}` });
  group.append(
    draw("line", { x1: at, x2: at, y1: MARGIN.top, y2: chart.height - MARGIN.bottom }),
    draw("text", { x: at + (leftward ? -6 : 6), y: chart.height - MARGIN.bottom - 8 - 16 * level, "text-anchor": leftward ? "end" : "start", text }));
  if (!Number.isNaN(dot)) group.append(draw("circle", { class: `dot c-${color}`, cx: at, cy: chart.y.at(dot), r: 6 }));
  chart.marks.append(group);
}

// Bars from 0; spec: {values, color, x, y: names of the axes, tick(i), tip(i): text of a bar, label}
function barChart(width, spec) {
  const height = 220;
  const { left, right, top, bottom } = MARGIN;
  const count = spec.values.length;
  const y = linearScale(0, Math.max(...spec.values, 0) || 1, height - bottom, top, 4);
  const slot = (width - left - right) / count;
  const at = (i) => left + slot * (i + 0.5);
  const every = Math.ceil(count / Math.max(2, Math.floor((width - left - right) / 54)));
  const ticks = [...Array(count).keys()].filter((i) => i % every === 0);
  const x = { at, ticks, format: spec.tick };
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.label });
  svg.append(frame(width, height, x, y, { x: spec.x, y: spec.y }));
  const thick = Math.max(1, Math.min(slot * 0.82, 48));
  spec.values.forEach((value, i) => {
    const bar = draw("rect", { class: `rect c-${spec.color}`, x: at(i) - thick / 2, y: y.at(value), width: thick, height: Math.max(0, y.at(0) - y.at(value)), rx: Math.min(2, thick / 4) });
    bar.append(draw("title", { text: spec.tip(i) }));
    svg.append(bar);
  });
  return svg;
}

const DASHES = ["", "dashed", "dotted", "dashed", "dotted", ""];
const COLORS = ["blue", "orange", "green", "purple", "gold", "grey"];

function keyOf(entries) {
  return make("ul", { class: "key" }, ...entries.map(({ name, color, dash, dot, hollow }) => {
    const sample = draw("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" });
    sample.append(dot
      ? draw("circle", { class: `dot ${hollow ? "hollow " : ""}c-${color}`, cx: 13, cy: 6, r: 5 })
      : draw("path", { class: `line c-${color} ${dash || ""}`, d: "M0 6L26 6" }));
    return make("li", {}, sample, nameOf(name));
  }));
}
