// Lists of items for users, beside a list of the most popular ones.

function showRanking() {
  const found = figures.ranking;
  if (!found) return;
  show("ranking");
  byId("ranking-title").textContent = `Lists of ${found.n} items`;
  byId("ranking-say").textContent = `Where the likes of this data stand among all items that each user had not rated, beside a list of the items with the most likes. ${found.notes.join(" ")}`;
  const cell = (row, key) => make("span", { text: row[key] === null ? NO_VALUE : fixed(row[key]), "data-value": exact(row[key] === null ? NaN : row[key]), "data-key": key });
  const body = table(byId("ranking-table"), ["", words.model, "popularity"], found.rows.map((row) => [row.name, cell(row, "model"), cell(row, "popularity")]));
  found.rows.forEach((row, at) => body.children[at].classList.toggle("winner", row.model > row.popularity));
  const warning = byId("ranking-warning");
  warning.hidden = !found.popularity_wins;
  warning.textContent = "Popularity alone has the higher NDCG: for choosing what to show, these lists are worse than one list for everybody.";
}
