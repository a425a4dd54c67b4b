// What stands behind a chosen label: its strongest features, or the items most like it.

const details = figures.details && {
  kind: figures.details.kind, names: figures.details.names, per: figures.details.per_label,
  labels: decode(figures.details.labels), places: decode(figures.details.places), values: decode(figures.details.values),
};

function detailOf(label) {
  const at = details.labels.indexOf(label);
  if (at < 0) return null;
  return Array.from({ length: details.per }, (_, i) => [details.names[details.places[at * details.per + i]], details.values[at * details.per + i]]);
}

function showDetail(label) {
  const place = byId("detail");
  const features = details.kind === "features";
  const decisions = figures.kind === "decisions";
  const [about, right, left] = decisions ? ["What speaks for and against ", "yes", "no"] : ["What raises and lowers ", "more", "less"];
  const title = make("h3", {}, features ? about : "Most like ", nameOf(labelNames[label]));
  const found = detailOf(label);
  const parts = [title];
  if (!found) {
    parts.push(make("p", { class: "hint", text: `The page keeps this for the ${whole(details.labels.length)} most observed ${words.label}s only, and this is not one of them.` }));
  } else if (!found.some(([, value]) => Math.abs(value) > 0)) {
    parts.push(make("p", {
      class: "say", text: features
        ? `No feature moves this ${words.label}: every ${words.row} gets the same score.`
        : found.length ? "Nothing is like this item: the model has found no taste that items share." : "The model knows no other item.",
    }));
  } else {
    parts.push(make("p", {
      class: "say", text: features
        ? `How far a typical change of each feature (one standard deviation) moves the score, to the right for ${right}, to the left for ${left}; the strongest features are listed.`
        : "Items that the same users like, by the cosine of their factors: 1 is the same taste, 0 none in common, −1 the opposite.",
    }), effectBars(found));
  }
  place.replaceChildren(...parts);
  place.hidden = false;
  place.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

function effectBars(found) {
  const most = Math.max(...found.map(([, value]) => Math.abs(value))) || 1;
  return make("ol", { class: "bars single" }, ...found.map(([name, value]) => {
    const bar = make("i", { class: value < 0 ? "down" : "up" });
    const fraction = (50 * Math.abs(value)) / most;
    bar.style.left = `${value < 0 ? 50 - fraction : 50}%`;
    bar.style.width = `${fraction}%`;
    return make("li", {},
      make("span", { class: "name" }, nameOf(name)),
      make("span", { class: "track", "aria-hidden": "true" }, bar, make("span", { class: "zero" })),
      make("span", { class: "figure", "data-value": exact(value), text: (value > 0 ? "+" : "") + fixed(value, 3) }));
  }));
}
