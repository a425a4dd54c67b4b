// Arrays that Python wrote: base64 of little-endian numbers, short whole numbers, and bits.

function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function wholeNumbers(bytes, length) {
  const numbers = new Uint32Array(length);
  for (let i = 0, at = 0; i < length; i++) {
    let shift = 0;
    let byte;
    do {
      byte = bytes[at++];
      numbers[i] |= (byte & 127) << shift;
      shift += 7;
    } while (byte > 127);
  }
  return numbers;
}

function flags(bytes, length) {
  const found = new Uint8Array(length);
  for (let i = 0; i < length; i++) found[i] = (bytes[i >> 3] >> (i & 7)) & 1;
  return found;
}

function littleEndian(bytes, found, read) {
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < found.length; i++) found[i] = view[read](i * found.BYTES_PER_ELEMENT, true);
  return found;
}

function decode(encoded) {
  if (!encoded) return null;
  const bytes = bytesOf(encoded.data);
  const length = encoded.length;
  switch (encoded.kind) {
    case "whole": return wholeNumbers(bytes, length);
    case "bits": return flags(bytes, length);
    case "u1": return bytes;
    case "u2": return littleEndian(bytes, new Uint16Array(length), "getUint16");
    default: return littleEndian(bytes, new Float64Array(length), "getFloat64");
  }
}

// A single number: infinities come as text, NaN as null.
function toNumber(given) {
  if (given === null || given === undefined) return NaN;
  if (given === "inf") return Infinity;
  if (given === "-inf") return -Infinity;
  return given;
}

function repeated(counts) {
  let total = 0;
  for (const count of counts) total += count;
  const found = new Uint32Array(total);
  for (let group = 0, at = 0; group < counts.length; group++) {
    found.fill(group, at, at + counts[group]);
    at += counts[group];
  }
  return found;
}

// Labels of the entries of all rows, from the steps between them.
function labelsOfRows(rowCounts, steps) {
  const found = new Uint32Array(steps.length);
  for (let row = 0, at = 0; row < rowCounts.length; row++) {
    let label = 0;
    for (const end = at + rowCounts[row]; at < end; at++) {
      label += steps[at];
      found[at] = label;
    }
  }
  return found;
}
