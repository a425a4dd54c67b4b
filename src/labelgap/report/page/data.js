// What is observed: the pattern, the rows, the labels.

const MOST_BARS = 24;

function showData() {
  const { data } = figures;
  const empty = [
    data.n_empty_rows ? `${plural(data.n_empty_rows, words.row)} without any` : "",
    data.n_empty_labels ? `${plural(data.n_empty_labels, words.label)} without any` : "",
  ].filter(Boolean);
  byId("data-say").textContent =
    `An entry is one ${words.row} and one ${words.label}; ${sayFraction(data)}${empty.length ? ` (${empty.join(", ")})` : ""}.`;
  // What is known everywhere has no pattern, and is said in words.
  const everything = data.n_observed === data.n_rows * data.n_labels;
  if (everything) byId("pattern-part").hidden = true;
  else {
    showPattern();
    showHistogram();
  }
  showBars(everything);
}

function sayFraction(data) {
  const entries = data.n_rows * data.n_labels;
  if (entries === 1) return "there is one, and it is observed";
  if (figures.absent_is_no) return `all ${whole(entries)} count as observed, as an absent entry is read as a no`;
  if (data.n_observed === entries) return `all ${whole(entries)} are observed: every ${words.row} has ${data.n_labels === 1 ? `its ${words.label}` : `all ${plural(data.n_labels, words.label)}`}, so no entry is missing`;
  return `${percent(data.fraction)} of all ${whole(entries)} entries are observed, and of the others nothing is known`;
}

function showPattern() {
  const { grid } = figures.data;
  byId("pattern-title").textContent = `Where: ${words.row}s down, ${words.label}s across`;
  byId("pattern-hint").textContent = "The stronger the colour of a square, the more of its entries are observed.";
  const canvas = byId("pattern");
  canvas.width = grid.width;
  canvas.height = grid.height;
  canvas.style.aspectRatio = `${Math.min(Math.max(grid.width / grid.height, 1.25), 2.4)}`;
  canvas.setAttribute("aria-label", `Map of the observed entries on a grid of ${grid.height} by ${grid.width}; ${percent(figures.data.fraction)} are observed.`);
  const levels = decode(grid.levels);
  const highest = levels.reduce((a, b) => Math.max(a, b), 1);
  const paint = () => {
    const [from, to] = ["--faint", "--blue"].map(colorOf);
    const context = canvas.getContext("2d");
    const image = context.createImageData(grid.width, grid.height);
    levels.forEach((level, at) => {
      // The square root, so that little can be told from nothing.
      const fraction = Math.sqrt(level / highest);
      for (let c = 0; c < 3; c++) image.data[4 * at + c] = from[c] + (to[c] - from[c]) * fraction;
      image.data[4 * at + 3] = 255;
    });
    context.putImageData(image, 0, 0);
  };
  paint();
  onTheme(paint);
}

function colorOf(variable) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function showHistogram() {
  const { edges, counts } = figures.data.row_histogram;
  const range = (b) => (edges[b + 1] - edges[b] === 1 ? whole(edges[b]) : `${whole(edges[b])} to ${whole(edges[b + 1] - 1)}`);
  byId("histogram-title").textContent = `Observed entries per ${words.row}`;
  if (counts.length === 1) {
    // One bar says less than its sentence.
    const about = counts[0] === 1 ? `The only ${words.row} has` : `Each of the ${plural(counts[0], words.row)} has`;
    byId("histogram").replaceChildren(make("p", { class: "say", text: `${about} ${range(0)} observed ${edges[0] === 1 && edges[1] === 2 ? "entry" : "entries"}.` }));
    byId("histogram-table").closest("details").hidden = true;
    return;
  }
  responsive(byId("histogram"), (width) => [barChart(width, {
    values: counts, color: "blue", x: `observed entries of a ${words.row}`, y: `${words.row}s`,
    tick: (b) => whole(edges[b]), tip: (b) => `${range(b)} observed: ${plural(counts[b], words.row)}`,
    label: `Histogram: from ${edges[0]} to ${edges[edges.length - 1] - 1} observed entries per ${words.row}.`,
  })]);
  tableOnDemand("histogram-table", () => [["observed entries", `${words.row}s`], counts.map((count, b) => [range(b), whole(count)])]);
}

function showBars(everything) {
  const decisions = figures.kind === "decisions";
  if (everything && !decisions) {
    byId("bars-part").hidden = true;
    return;
  }
  const first = everything ? labelPositive : labelObserved;
  const order = [...labelNames.keys()].sort((a, b) => first[b] - first[a] || a - b).slice(0, MOST_BARS);
  const most = Math.max(labelObserved[order[0]] || 0, 1);
  byId("bars-title").textContent = everything ? `Known yes per ${words.label}` : `Observed entries per ${words.label}`;
  const hint = byId("bars-hint");
  hint.replaceChildren(make("span", { class: "swatch" }), " observed ");
  if (decisions) hint.append(make("span", { class: "swatch yes" }), " of those, known to be yes ");
  if (labelNames.length > MOST_BARS) hint.append(`(the ${MOST_BARS} ${everything ? "with most yes" : "most observed"} of ${whole(labelNames.length)}; the table of ${words.label}s has all)`);
  byId("bars").replaceChildren(...order.map((j) => {
    const all = make("i"), yes = make("i", { class: "yes" });
    all.style.width = `${(100 * labelObserved[j]) / most}%`;
    yes.style.width = `${(100 * labelPositive[j]) / most}%`;
    const figure = decisions ? `${whole(labelPositive[j])} / ${whole(labelObserved[j])}` : whole(labelObserved[j]);
    return make("li", {},
      make("span", { class: "name" }, nameOf(labelNames[j])),
      make("span", { class: "track", "aria-hidden": "true" }, all, ...(decisions ? [yes] : [])),
      make("span", { class: "figure", text: figure }));
  }));
}
