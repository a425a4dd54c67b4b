// What the page is about, and what its reader has chosen.

const figures = JSON.parse(byId("figures").textContent);
const words = figures.words;
const labelNames = figures.labels.names;
const labelObserved = decode(figures.labels.observed);
const labelPositive = decode(figures.labels.positive);

function readTable(model, shared) {
  if (shared) return { ...shared, bin: decode(model.bins) };
  const counted = model.counted;
  return {
    row: null, label: repeated(decode(counted.label_counts)), bin: decode(counted.bins), positive: decode(counted.positive),
    count: decode(counted.counts), weight: decode(counted.weights),
  };
}

function readEntries(entries) {
  if (!entries) return null;
  const rowCounts = decode(entries.row_counts);
  return {
    row: repeated(rowCounts), label: labelsOfRows(rowCounts, decode(entries.label_steps)),
    positive: decode(entries.positive), count: null, weight: decode(entries.weights),
  };
}

function readModels() {
  const shared = readEntries(figures.entries);
  return (figures.models || []).map((model) => {
    const thresholds = decode(model.thresholds);
    const sweep = new Sweep(readTable(model, shared), thresholds.length, figures.data.n_rows, figures.data.n_labels);
    const own = thresholds.indexOf(toNumber(model.threshold));
    const fractions = sweep.micro.tp.map((tp, k) => (tp + sweep.micro.fp[k]) / sweep.micro.total);
    return { name: model.name, thresholds, probabilities: decode(model.probabilities), sweep, own, fractions };
  });
}

const models = readModels();
const model = models[0];
const canInstance = model ? model.sweep.hasRows() : false;

const chosen = { metric: null, k: model ? model.own : 0, axis: "score" };
const watchers = { metric: [], k: [] };

function setMetric(metric) {
  chosen.metric = metric;
  for (const watch of [...watchers.metric, ...watchers.k]) watch();
}

function setThreshold(k) {
  chosen.k = Math.min(Math.max(k, 0), model.thresholds.length - 1);
  for (const watch of watchers.k) watch();
}

// Thresholds as places on an axis that a person can read.
const AXES = {
  probability: { name: "threshold, as a probability of yes", of: (one) => one.probabilities, low: 0, high: 1 },
  score: { name: "threshold θ, in units of the score", of: (one) => one.thresholds },
  fraction: { name: "fraction of entries that are a yes", of: (one) => one.fractions, low: 0, high: 1 },
};

function axisRange(id, some) {
  const axis = AXES[id];
  if (axis.low !== undefined) return [axis.low, axis.high];
  const finite = some.flatMap((one) => Array.from(axis.of(one)).filter(Number.isFinite));
  return finite.length ? [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))] : [-1, 1];
}

function axesOf(some) {
  return Object.keys(AXES).filter((id) => some.every((one) => AXES[id].of(one)));
}
