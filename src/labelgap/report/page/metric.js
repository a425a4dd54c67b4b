// The linear-fractional family, as labelgap.LinearFractional computes it.

const KEYS = ["const", "tp", "fp", "fn", "tn"];
const SITUATIONS = ["a true positive", "a false positive", "a false negative", "a true negative"];
const ROUNDING = 1e-12;

function atVertices(coefficients) {
  const largest = Math.max(...coefficients.map(Math.abs));
  return coefficients.slice(1).map((value) => {
    const sum = coefficients[0] + value;
    return Math.abs(sum) <= ROUNDING * largest ? 0 : sum;
  });
}

// {average, numerator, denominator (const, tp, fp, fn, tn), zero_division, balanced} made ready, or an error.
function makeMetric(given) {
  const wrong = [...given.numerator, ...given.denominator, given.zero_division].some((c) => !Number.isFinite(c));
  if (wrong) throw new Error("Every coefficient must be a number.");
  let top = atVertices(given.numerator);
  let bottom = atVertices(given.denominator);
  const low = bottom.indexOf(Math.min(...bottom));
  const high = bottom.indexOf(Math.max(...bottom));
  if (bottom[low] < 0 && bottom[high] > 0) {
    throw new Error(
      `The denominator can vanish: it is ${bottom[high]} when every observed entry is ${SITUATIONS[high]} and ` +
      `${bottom[low]} when every one is ${SITUATIONS[low]}. Change it so that it keeps one sign.`);
  }
  if (bottom.every((value) => value === 0)) throw new Error("The denominator is 0 for all decisions; give it a coefficient.");
  if (bottom[low] < 0) {
    top = top.map((value) => -value);
    bottom = bottom.map((value) => -value);
  }
  bottom.forEach((below, at) => {
    if (below === 0 && top[at] !== 0) {
      throw new Error(
        `The denominator is 0 when every observed entry is ${SITUATIONS[at]}, but the numerator is ${top[at]} there, ` +
        "so the metric has no bound. Give the denominator a positive constant.");
    }
  });
  return {
    name: given.name, average: given.average, balanced: given.balanced, zero: given.zero_division, top, bottom,
    key: JSON.stringify([top, bottom, given.average, given.balanced, given.zero_division]),
  };
}

// One group's metric from its counts; up and down balance the classes.
function ratio(metric, tp, fp, fn, tn, up, down) {
  const { top, bottom } = metric;
  const a = tp * up, b = fp * down, c = fn * up, d = tn * down;
  const below = bottom[0] * a + bottom[1] * b + bottom[2] * c + bottom[3] * d;
  return below !== 0 ? (top[0] * a + top[1] * b + top[2] * c + top[3] * d) / below : metric.zero;
}
