// The penalties that were compared: one dot for each choice, the winner marked, and all figures in a table.

const PENALTIES = {
  trace: "trace penalty λ", ridge: "ridge penalty λ₂", intercept: "intercept penalty κ", count_weighting: "count weighting",
};

function showCandidates(fit) {
  const tried = fit.candidates.map((one, at) => ({
    ...Object.fromEntries(Object.keys(PENALTIES).map((key) => [key, toNumber(one[key])])),
    lists: one.lists, metric: toNumber(one.metric), loss: toNumber(one.loss), rank: toNumber(one.rank), folds: one.folds, order: at + 1,
  }));
  if (!tried.length) {
    byId("candidates-part").hidden = true;
    return;
  }
  const winner = tried[tried.length - 1];
  // The winner is the last one. Where it is one of the others, judged again, it is that dot and that row.
  const others = tried.slice(0, -1).filter((one) => !(sameChoice(one, winner) && one.folds === winner.folds && one.metric === winner.metric));
  const varied = Object.keys(PENALTIES).filter((key) => new Set(tried.map((one) => one[key])).size > 1 && tried.every((one) => !Number.isNaN(one[key])));
  const { criterion } = fit, last = toNumber(fit.penalties.trace);
  byId("candidates-say").textContent =
    `Each choice was fitted to a part of the data, with the penalties shown here, and judged by its ${criterion.metric} on the rest. The winner is the ${others.length ? "orange dot and the first row of the table" : "only row"}. ` +
    (figures.kind === "regression"
      ? "Choices that differ by less than 0.01\u00a0% of a constant’s deviance count as equal, so the winner is one of several highest dots where there are such."
      : `Among choices that it cannot tell apart, the held-out loss${criterion.loss === "loss" ? "" : ` (${criterion.loss})`} decides, so the winner need not be the highest dot.`) +
    (last === winner.trace ? "" : ` The model itself has λ = ${short(last)} in place of the winner’s ${short(winner.trace)}: it was fitted to all entries, and more entries take another λ.`);
  if (others.length) showSearch([...others, winner], winner, varied, criterion.metric);
  else byId("search-part").hidden = true;
  // A penalty that is 0 throughout, and another choice that never differs, would say nothing.
  const columns = Object.keys(PENALTIES).filter((key, at) => varied.includes(key) || (at < 3 && winner[key] !== 0));
  const ofLists = winner.lists === null ? [] : ["lists"];
  const headings = ["try", `held-out ${criterion.metric}`, "held-out loss", ...columns.map((key) => PENALTIES[key]), ...ofLists.map(() => "settings"), "mean rank", "folds"];
  const body = table(byId("candidates"), headings, [winner, ...others].map((one) => [
    one === winner ? "chosen" : String(one.order), fixed(one.metric), short(one.loss, 5),
    ...columns.map((key) => short(one[key])), ...ofLists.map((key) => one[key]), short(one.rank), String(one.folds),
  ]));
  body.firstChild.classList.add("winner");
  wholeRows(byId("candidates").parentNode);
}

function sameChoice(one, other) {
  return one.lists === other.lists && Object.keys(PENALTIES).every((key) => Object.is(one[key], other[key]));
}

function showSearch(tried, winner, varied, metric) {
  const select = byId("search-axis");
  // A logarithmic axis needs two different positive values; 0 gets a place of its own below them.
  const wide = varied.filter((key) => new Set(tried.map((one) => one[key]).filter((value) => value > 0)).size > 1);
  select.replaceChildren(...wide.map((key) => option(key, PENALTIES[key])), option("order", "order of the search"));
  const redraw = responsive(byId("search"), (width) => drawSearch(width, tried, winner, select.value, metric));
  select.addEventListener("change", redraw);
}

function drawSearch(width, tried, winner, key, metric) {
  const values = tried.map((one) => one[key]).filter((value) => value > 0);
  const zeros = key !== "order" && tried.some((one) => one[key] === 0);
  const low = Math.min(...values), high = Math.max(...values);
  const place = (value) => (value > 0 ? value : low / 10);
  const x = key === "order" ? { low: 1, high, name: "try", whole: true } : { low: place(zeros ? 0 : low), high, name: PENALTIES[key] + (zeros ? " (0 at the left edge)" : ""), log: true, tight: true };
  const heights = tried.map((one) => one.metric).filter(Number.isFinite).sort((a, b) => a - b);
  // A choice that is far behind would press all others into one line; it is drawn at the lower edge.
  const top = heights[heights.length - 1], far = top - 4 * (top - heights[heights.length >> 1]);
  const lowest = Math.min(...heights.filter((height) => height >= far), winner.metric), margin = (top - lowest) * 0.12 || 0.01;
  const outside = tried.some((one) => one.metric < lowest);
  const told = (one) => `${one === winner ? "chosen: " : ""}${metric} ${fixed(one.metric)}, λ ${short(one.trace)}, λ₂ ${short(one.ridge)}, κ ${short(one.intercept)}${one.lists === null ? "" : `, ${one.lists}`}`;
  const dot = (one, size) => [place(one[key]), one.metric, size, one.metric < lowest, told(one)];
  const chart = lineChart(width, {
    series: [{ points: [], color: "blue", dots: tried.filter((one) => one !== winner).map((one) => dot(one, 4)) }], height: 260,
    x, y: { low: lowest - margin, high: top + margin, name: `held-out ${metric}` },
    label: `${plural(tried.length, "choice")} of penalties by their held-out ${metric}; the chosen one has ${fixed(winner.metric)}.`,
  });
  markAt(chart, place(winner[key]), { color: "orange", text: `chosen: ${fixed(winner.metric)}`, dot: winner.metric });
  chart.marks.querySelector("circle").setAttribute("r", "8");
  chart.marks.querySelector("circle").append(draw("title", { text: told(winner) }));
  const legend = [{ name: "a choice that was judged", color: "blue", dot: true }, { name: "the winner", color: "orange", dot: true }];
  if (outside) legend.push({ name: "far behind, drawn at the edge", color: "blue", dot: true, hollow: true });
  return [chart.svg, keyOf(legend)];
}
