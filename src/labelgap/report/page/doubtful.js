// The observed labels that the model contradicts most.

function showDoubtful() {
  const found = figures.doubtful;
  if (!found || !found.entries.length) return;
  show("doubtful");
  const some = found.entries.length, all = found.n_wrong;
  byId("doubtful-say").textContent =
    `At the model’s own θ, ${plural(all, "observed label")} ${all === 1 ? "is" : "are"} decided otherwise than recorded. ` +
    `${some < all ? `The table has the ${whole(some)} of which the model is surest` : "The table begins with those of which the model is surest"}: ` +
    `${found.by_probability ? "what was recorded has the lowest probability" : "the score is furthest beyond θ"}. ` +
    `On ${words.row}s that the model has not seen, each of them is an error of the model or an error of the label; the page cannot tell which, so look at them again before you change any. ` +
    `A model has learnt from the ${words.row}s that it was fitted to, wrong labels included; to search those, use find_label_errors or “labelgap errors”.` +
    (found.has_names ? "" : ` The ${words.row}s have no names, and are numbered from 0 in the order of the data.`);
  const last = found.by_probability ? "probability of yes" : "score";
  table(byId("doubtful-table"), [words.row, words.label, "recorded", "decided", last], found.entries.map((entry) => [
    nameOf(entry.row), nameOf(labelNames[entry.label]), entry.recorded ? "yes" : "no",
    make("span", { class: entry.recorded ? "false-no" : "false-yes", text: entry.recorded ? "no" : "yes" }),
    short(toNumber(found.by_probability ? entry.probability : entry.score)),
  ]));
  wholeRows(byId("doubtful-table").parentNode);
}
