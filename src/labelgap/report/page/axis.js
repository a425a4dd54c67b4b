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
  const step = niceStep(high - low, count);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  if (whole) ticks.splice(0, ticks.length, ...ticks.filter(Number.isInteger));
  const at = (value) => from + ((Math.min(Math.max(value, low), high) - low) / (high - low)) * (to - from);
  const back = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
  return { at, back, ticks, low, high, format: (v) => short(v, 4) };
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
