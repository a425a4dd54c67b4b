// The rows that are decided wrongly most often, at the model's own threshold.

function showWrongRows() {
  const found = figures.wrong_rows;
  const one = words.row;
  byId("wrong-title").textContent = `${capital(one)}s with the most wrong decisions`;
  byId("wrong").dataset.title = `${capital(one)}s`;
  show("wrong");
  const some = found.rows.length;
  byId("wrong-say").textContent = some
    ? `At the model’s own θ, ${sayAllRight(found, one)}. ` +
      `The table has the ${some === 1 ? one : `${whole(some)} ${one}s`} with the most; the slider above does not change it. Of each, the wrong ${words.label}s furthest beyond θ are named, with what was decided${figures.calibration ? " and the predicted probability of yes" : ""}.` +
      (found.has_names ? "" : ` The ${one}s have no names, and are numbered from 0 in the order of the data.`)
    : `At the model’s own θ, every decision about the ${plural(found.n_rows, one)} is right.`;
  if (!some) {
    byId("wrong-part").hidden = true;
    return;
  }
  showWrongCounts(found.counts);
  const body = table(byId("wrong-table"), [one, "wrong", "of observed", "wrongly yes", "wrongly no", `which ${words.label}s`],
    found.rows.map((row) => {
      const wrong = row.false_yes + row.false_no;
      return [nameOf(row.name), make("strong", { text: whole(wrong) }), `${whole(row.observed)} (${percent(wrong / row.observed, 0)})`, whole(row.false_yes), whole(row.false_no), wrongEntries(row, wrong)];
    }));
  for (const row of body.children) row.lastChild.className = "which";
  wholeRows(byId("wrong-table").parentNode, 560);
}

function sayAllRight({ n_all_right: right, n_rows: rows }, one) {
  if (!right) return rows === 1 ? `the only ${one} has a wrong decision` : `each of the ${plural(rows, one)} has a wrong decision`;
  return `${whole(right)} of ${plural(rows, one)} ${right === 1 ? "has" : "have"} no wrong decision`;
}

function wrongEntries(row, wrong) {
  const list = make("span");
  row.entries.forEach((entry, at) => {
    const probability = toNumber(entry.probability);
    const comma = at + 1 < row.entries.length ? "," : "";
    list.append(make("span", { class: entry.yes ? "false-yes" : "false-no", title: entry.yes ? "decided yes, truly no" : "decided no, truly yes" },
      nameOf(labelNames[entry.label]), ` ${entry.yes ? "yes" : "no"}${Number.isNaN(probability) ? "" : ` (${short(probability, 2)})`}${comma}`), " ");
  });
  if (wrong > row.entries.length) list.append(`and ${whole(wrong - row.entries.length)} more`);
  return list;
}

// Rows by their number of wrong decisions, several numbers to a bar where there are many.
function showWrongCounts(counts) {
  const width = Math.ceil(counts.length / 24);
  const bars = Array.from({ length: Math.ceil(counts.length / width) }, (_, b) => counts.slice(b * width, (b + 1) * width).reduce((x, y) => x + y, 0));
  const range = (b) => (width === 1 ? whole(b) : `${whole(b * width)} to ${whole(Math.min((b + 1) * width, counts.length) - 1)}`);
  byId("wrong-counts-title").textContent = `Wrong decisions per ${words.row}`;
  responsive(byId("wrong-counts"), (shown) => [barChart(shown, {
    values: bars, color: "orange", x: `wrong decisions of a ${words.row}`, y: `${words.row}s`,
    tick: (b) => whole(b * width), tip: (b) => `${range(b)} wrong: ${plural(bars[b], words.row)}`,
    label: `Histogram: from 0 to ${counts.length - 1} wrong decisions per ${words.row}.`,
  })]);
  tableOnDemand("wrong-counts-table", () => [["wrong decisions", `${words.row}s`], bars.map((count, b) => [range(b), whole(count)])]);
}
