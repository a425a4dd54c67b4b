// The table of labels: sorted by any column, searched by name, and live at the chosen threshold.

const PAGE_ROWS = 200;

function per(above, below) {
  return below > 0 ? above / below : NaN;
}

// Columns: {key, name, title, values(): array, format}. The first is the name.
function decisionColumns() {
  const totals = model.sweep.groups("macro");
  const ranks = { auc: decode(figures.label_ranks.auc), ap: decode(figures.label_ranks.average_precision) };
  let counts = null;
  watchers.k.push(() => { counts = null; });
  const live = () => (counts ||= model.sweep.labelCounts(chosen.k));
  const over = (formula) => () => labelNames.map((_, j) => formula(live(), j));
  return [
    { key: "observed", name: "observed", title: "observed entries", values: () => labelObserved, format: whole },
    { key: "positive", name: "yes", title: "observed entries that are a yes", values: () => labelPositive, format: whole },
    { key: "rate", name: "rate", title: "fraction of yes", values: () => labelNames.map((_, j) => per(totals.yes[j], totals.yes[j] + totals.no[j])), format: percent },
    { key: "auc", name: "AUC", title: "fraction of the pairs of a yes and a no in which the yes has the higher score; 0.5 is chance", values: () => ranks.auc, format: (v) => fixed(v, 3) },
    { key: "ap", name: "AP", title: "average precision: the mean precision over the true yes, from the highest score down; the rate of yes is chance", values: () => ranks.ap, format: (v) => fixed(v, 3) },
    ...["tp", "fp", "fn", "tn"].map((key) => ({ key, name: key.toUpperCase(), title: `${{ tp: "true positives", fp: "false positives", fn: "false negatives", tn: "true negatives" }[key]} at θ`, values: () => live()[key], format: amount })),
    { key: "precision", name: "precision", title: "fraction of the decided yes that are right", values: over((c, j) => per(c.tp[j], c.tp[j] + c.fp[j])), format: (v) => fixed(v, 3) },
    { key: "recall", name: "recall", title: "fraction of the true yes that are found", values: over((c, j) => per(c.tp[j], c.tp[j] + c.fn[j])), format: (v) => fixed(v, 3) },
    { key: "f1", name: "F1", title: "harmonic mean of precision and recall", values: over((c, j) => per(2 * c.tp[j], 2 * c.tp[j] + c.fp[j] + c.fn[j])), format: (v) => fixed(v, 3) },
  ];
}

// Means over the labels that have a known yes and a known no.
function sayMeanRanks() {
  const values = [figures.label_ranks.auc, figures.label_ranks.average_precision].map((one) => Array.from(decode(one)).filter((value) => !Number.isNaN(value)));
  const count = values[0].length;
  if (!count) return "";
  const [auc, ap] = values.map((some) => some.reduce((a, b) => a + b, 0) / count);
  return `; their means over the ${count === 1 ? `${words.label}` : plural(count, words.label)} with both classes are ${fixed(auc, 3)} and ${fixed(ap, 3)}`;
}

function showLabels(columns, say) {
  show("labels");
  byId("labels-title").textContent = `Every ${words.label}`;
  byId("labels-say").textContent = say;
  byId("labels-region").setAttribute("aria-label", `Table of ${words.label}s`);
  // Where all labels are equally observed, their order is that of their yes.
  const alike = columns.some(({ key }) => key === "positive") && new Set(labelObserved).size === 1;
  const view = { key: alike ? "positive" : "observed", down: true, text: "", limit: PAGE_ROWS };
  const lower = labelNames.map((name) => name.toLowerCase());
  const head = make("tr");
  const heading = (key, name, title) => {
    const button = make("button", { type: "button", class: "sort", text: name, title, on: { click: () => sortBy(key) } });
    head.append(make("th", { scope: "col", "data-key": key }, button));
  };
  heading("name", words.label, `name of the ${words.label}`);
  for (const { key, name, title } of columns) heading(key, name, title);
  const body = make("tbody");
  byId("labels-table").replaceChildren(make("thead", {}, head), body);

  const order = () => {
    const found = [...labelNames.keys()].filter((j) => lower[j].includes(view.text));
    const sign = view.down ? -1 : 1;
    if (view.key === "name") return found.sort((a, b) => sign * labelNames[a].localeCompare(labelNames[b], "en", { numeric: true }) || a - b);
    const values = columns.find(({ key }) => key === view.key).values();
    // What has no value comes last whichever way.
    return found.sort((a, b) => (Number.isNaN(values[a]) - Number.isNaN(values[b])) || sign * (values[a] - values[b]) || a - b);
  };
  const render = () => {
    for (const cell of head.children) {
      const sorted = cell.dataset.key === view.key;
      if (sorted) cell.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    const found = order();
    const shown = found.slice(0, view.limit);
    const values = columns.map((column) => column.values());
    body.replaceChildren(...shown.map((j) => {
      const name = figures.details
        ? make("button", { type: "button", class: "pick", on: { click: () => pick(j) } }, nameOf(labelNames[j]))
        : nameOf(labelNames[j]);
      const row = make("tr", { "data-label": j, class: j === view.picked ? "chosen" : null }, make("th", { scope: "row" }, name));
      columns.forEach((column, at) => row.append(make("td", { "data-key": column.key, "data-value": exact(values[at][j]), text: column.format(values[at][j]) })));
      return row;
    }));
    byId("labels-count").textContent = `${whole(shown.length)} of ${plural(found.length, words.label)} shown`;
    const more = byId("more");
    more.hidden = shown.length === found.length;
    more.textContent = `Show ${whole(Math.min(PAGE_ROWS, found.length - shown.length))} more`;
    fitHeight();
  };
  const sortBy = (key) => {
    view.down = view.key === key ? !view.down : key !== "name";
    view.key = key;
    render();
  };
  const pick = (j) => {
    view.picked = j;
    for (const row of body.children) row.classList.toggle("chosen", Number(row.dataset.label) === j);
    showDetail(j);
  };
  const fitHeight = wholeRows(byId("labels-region"));
  const filter = byId("filter");
  filter.addEventListener("input", () => {
    view.text = filter.value.trim().toLowerCase();
    view.limit = PAGE_ROWS;
    render();
  });
  byId("more").addEventListener("click", () => {
    view.limit += PAGE_ROWS;
    render();
  });
  // One drawing per frame is enough, however fast the slider moves.
  let waiting = false;
  watchers.k.push(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      render();
    });
  });
  render();
}
