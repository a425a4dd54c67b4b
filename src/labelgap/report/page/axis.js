// Scales with round ticks.

function niceStep(span, count) {
  const rough = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= rough * 0.999);
}

// whole: only whole numbers mean something on this axis.
function linearScale(low, high, from, to, count, whole = false) {
  if (!(high > low)) {
    const margin = whole ? 1 : Math.abs(low) * 0.1 || 0.5;
    [low, high] = [low - margin, high + margin];
  }
  // As many digits as tell one tick from the next; where these are many, there are fewer ticks.
  const digitsAt = (some) => Math.max(4, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / some)) + 2);
  let step = niceStep(high - low, count);
  if (digitsAt(step) > 5) step = niceStep(high - low, Math.min(count, 3));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  if (whole) ticks.splice(0, ticks.length, ...ticks.filter(Number.isInteger));
  const at = (value) => from + ((Math.min(Math.max(value, low), high) - low) / (high - low)) * (to - from);
  const back = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
  return { at, back, ticks, low, high, format: (v) => short(v, digitsAt(step)) };
}

// A logarithmic axis that ends near its outermost values, for dots that would crowd between whole decades.
function tightLogScale(low, high, from, to) {
  const margin = Math.max(Math.log10(high / low) * 0.06, 0.05);
  const first = Math.log10(low) - margin, last = Math.log10(high) + margin;
  const decades = Array.from({ length: Math.floor(last) - Math.floor(first) + 1 }, (_, i) => Math.floor(first) + i);
  const ticksOf = (steps) => decades.flatMap((power) => steps.map((step) => step * 10 ** power)).filter((v) => Math.log10(v) >= first && Math.log10(v) <= last);
  let ticks = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]].map(ticksOf).find((some) => some.length > 2) || [low, high];
  const most = Math.min(7, Math.max(2, Math.floor(Math.abs(to - from) / 58)));
  ticks = ticks.filter((_, i) => i % Math.ceil(ticks.length / most) === 0);
  const at = (value) => from + ((Math.log10(value) - first) / (last - first)) * (to - from);
  return { at, ticks, low, high, format: (v) => short(v, 2) };
}

function logScale(low, high, from, to) {
  const first = Math.floor(Math.log10(low) + 1e-9), last = Math.max(Math.ceil(Math.log10(high) - 1e-9), first + 1);
  const every = Math.ceil((last - first) / 6);
  const ticks = [];
  for (let power = first; power <= last; power += every) ticks.push(10 ** power);
  const at = (value) => from + ((Math.log10(Math.max(value, 10 ** first)) - first) / (last - first)) * (to - from);
  const label = (v) => (v >= 0.001 && v <= 1000 ? String(v) : `1e${Math.round(Math.log10(v))}`.replace("-", "−"));
  return { at, ticks, low: 10 ** first, high: 10 ** last, format: label };
}

// Probabilities by their log-odds, which spreads out what is near 0 and near 1; neither end has a place itself.
function logitScale(low, high, from, to) {
  const odds = (p) => Math.log(p / (1 - p));
  [low, high] = [Math.max(low, 1e-6), Math.min(high, 1 - 1e-6)];
  if (!(high > low)) [low, high] = [low / 2, Math.min(high * 2, 1 - 1e-6)];
  const [first, last] = [odds(low), odds(high)];
  const inside = (some) => some.filter((p) => p >= low * 0.999 && 1 - p >= (1 - high) * 0.999);
  const small = [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1];
  let ticks = inside([...small, 0.5, ...small.map((p) => 1 - p).reverse()]);
  if (ticks.length < 4) ticks = inside([...small.flatMap((p) => [p, 3 * p]), 0.5, 0.7, 0.9, 0.97, 0.99]);
  if (ticks.length < 4) ticks = inside([...small.flatMap((p) => [p, 2 * p, 3 * p, 5 * p]), 0.4, 0.6, 0.7, 0.8, 0.9, 0.95]);
  const at = (p) => from + ((odds(Math.min(Math.max(p, low), high)) - first) / (last - first)) * (to - from);
  return { at, ticks, low, high, format: (p) => String(Number(p.toPrecision(6))) };
}

function makeScale(axis, from, to, count) {
  if (axis.log) return (axis.tight ? tightLogScale : logScale)(axis.low, axis.high, from, to);
  if (axis.logit) return logitScale(axis.low, axis.high, from, to);
  return linearScale(axis.low, axis.high, from, to, count, axis.whole);
}
