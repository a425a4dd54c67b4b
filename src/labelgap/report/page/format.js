// Numbers for people, and for machines (full precision, in data-value).

const NO_VALUE = "–";

function exact(value) {
  if (value === Infinity) return "inf";
  if (value === -Infinity) return "-inf";
  return String(value);
}

function whole(value) {
  return Math.round(value).toLocaleString("en-GB");
}

// Counts are whole unless the entries have weights.
function amount(value) {
  return Number.isInteger(value) ? whole(value) : value.toLocaleString("en-GB", { maximumSignificantDigits: 6 });
}

function fixed(value, digits = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? NO_VALUE : value > 0 ? "∞" : "−∞";
  return value.toFixed(digits).replace("-", "−");
}

function short(value, digits = 3) {
  if (!Number.isFinite(value)) return fixed(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 1).replaceAll("-", "−").replace("e+", "e");
  return Number(value.toPrecision(digits)).toLocaleString("en-GB", { maximumSignificantDigits: digits }).replace("-", "−");
}

function percent(fraction, digits = 1) {
  if (Number.isNaN(fraction)) return NO_VALUE;
  const text = (100 * fraction).toFixed(digits);
  return `${fraction > 0 && Number(text) === 0 ? "under " + 10 ** -digits : text}\u00a0%`;
}

function plural(count, word) {
  const several = /[^aeiou]y$/.test(word) ? `${word.slice(0, -1)}ies` : `${word}s`;
  return `${whole(count)} ${count === 1 ? word : several}`;
}

function capital(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
