// Exact confusion counts and metrics at every threshold. The decision at threshold k is yes where bin > k.

class Sweep {
  // entries: {bin, label, row or null, positive, count or null, weight or null}, one element per entry, or per
  // several entries with the same label, bin and value.
  constructor(entries, nThresholds, nRows, nLabels) {
    Object.assign(this, { entries, nThresholds, nRows, nLabels });
    this.order = this.sortByBin();
    this.curves = new Map();
    this.grouped = new Map();
    this.micro = this.microCounts();
  }

  sortByBin() {
    const { bin } = this.entries;
    const start = new Uint32Array(this.nThresholds + 2);
    for (let i = 0; i < bin.length; i++) start[bin[i] + 1]++;
    for (let b = 1; b < start.length; b++) start[b] += start[b - 1];
    this.starts = start.slice();
    const order = new Uint32Array(bin.length);
    for (let i = 0; i < bin.length; i++) order[start[bin[i]]++] = i;
    return order;
  }

  weightOf(i) {
    const { weight, count } = this.entries;
    return weight ? weight[i] : count ? count[i] : 1;
  }

  // Entries and weights of either class in every group.
  groups(average) {
    if (!this.grouped.has(average)) this.grouped.set(average, this.countGroups(average));
    return this.grouped.get(average);
  }

  countGroups(average) {
    const { positive, count, row, label } = this.entries;
    const of = average === "micro" ? null : average === "macro" ? label : row;
    const n = average === "micro" ? 1 : average === "macro" ? this.nLabels : this.nRows;
    const found = {
      of, n, yes: new Float64Array(n), no: new Float64Array(n), nYes: new Float64Array(n), nNo: new Float64Array(n),
    };
    for (let i = 0; i < positive.length; i++) {
      const group = of ? of[i] : 0;
      const entries = count ? count[i] : 1;
      if (positive[i]) {
        found.yes[group] += this.weightOf(i);
        found.nYes[group] += entries;
      } else {
        found.no[group] += this.weightOf(i);
        found.nNo[group] += entries;
      }
    }
    return found;
  }

  // tp and fp at every threshold over all entries, and how many entries are left below.
  microCounts() {
    const { positive, count } = this.entries;
    const total = this.groups("micro");
    const K = this.nThresholds;
    const found = { tp: new Float64Array(K), fp: new Float64Array(K), fn: new Float64Array(K), tn: new Float64Array(K) };
    let tp = 0, fp = 0, nYes = total.nYes[0], nNo = total.nNo[0];
    for (let k = K - 1; k >= 0; k--) {
      for (let at = this.starts[k + 1]; at < this.starts[k + 2]; at++) {
        const i = this.order[at];
        if (positive[i]) {
          tp += this.weightOf(i);
          nYes -= count ? count[i] : 1;
        } else {
          fp += this.weightOf(i);
          nNo -= count ? count[i] : 1;
        }
      }
      found.tp[k] = tp;
      found.fp[k] = fp;
      // What is used up is 0, not what rounding left of it: 0/0 depends on that.
      found.fn[k] = nYes === 0 ? 0 : total.yes[0] - tp;
      found.tn[k] = nNo === 0 ? 0 : total.no[0] - fp;
    }
    found.total = total.yes[0] + total.no[0];
    return found;
  }

  hasRows() {
    return this.entries.row !== null;
  }

  // The metric at every threshold.
  curve(metric) {
    if (!this.curves.has(metric.key)) {
      if (this.curves.size > 60) this.curves.clear();
      this.curves.set(metric.key, metric.average === "micro" ? this.microCurve(metric) : this.groupCurve(metric));
    }
    return this.curves.get(metric.key);
  }

  static balance(metric, yes, no) {
    if (!metric.balanced || !(yes > 0) || !(no > 0)) return [1, 1];
    const half = (yes + no) / 2;
    return [half / yes, half / no];
  }

  microCurve(metric) {
    const { tp, fp, fn, tn } = this.micro;
    const total = this.groups("micro");
    const [up, down] = Sweep.balance(metric, total.yes[0], total.no[0]);
    return tp.map((_, k) => ratio(metric, tp[k], fp[k], fn[k], tn[k], up, down));
  }

  // Groups, classes and weights in the order of the walk, so that it reads them one after the other.
  inOrder(average) {
    const { positive, count, weight } = this.entries;
    const { of } = this.groups(average);
    const key = `${average} in order`;
    if (!this.grouped.has(key)) {
      const length = this.order.length;
      const found = {
        group: new Uint32Array(length), positive: new Uint8Array(length),
        weight: weight || count ? new Float64Array(length) : null, count: count ? new Uint32Array(length) : null,
      };
      for (let at = 0; at < length; at++) {
        const i = this.order[at];
        found.group[at] = of[i];
        found.positive[at] = positive[i];
        if (found.weight) found.weight[at] = this.weightOf(i);
        if (found.count) found.count[at] = count[i];
      }
      this.grouped.set(key, found);
    }
    return this.grouped.get(key);
  }

  groupCurve(metric) {
    const { n, yes, no, nYes, nNo } = this.groups(metric.average);
    const { group, positive, weight, count } = this.inOrder(metric.average);
    const tp = new Float64Array(n), fp = new Float64Array(n), fn = yes.slice(), tn = no.slice();
    const leftYes = nYes.slice(), leftNo = nNo.slice();
    const up = new Float64Array(n), down = new Float64Array(n), value = new Float64Array(n);
    // The sum over groups is sum + carry, which keeps what rounding would lose over many steps.
    let sum = 0, carry = 0, seen = 0;
    for (let g = 0; g < n; g++) {
      [up[g], down[g]] = Sweep.balance(metric, yes[g], no[g]);
      if (nYes[g] + nNo[g] === 0) continue;
      seen++;
      value[g] = ratio(metric, 0, 0, fn[g], tn[g], up[g], down[g]);
      sum += value[g];
    }
    const [top0, top1, top2, top3] = metric.top, [low0, low1, low2, low3] = metric.bottom, { zero } = metric;
    const curve = new Float64Array(this.nThresholds);
    for (let k = this.nThresholds - 1; k >= 0; k--) {
      for (let at = this.starts[k + 1]; at < this.starts[k + 2]; at++) {
        const g = group[at];
        const w = weight ? weight[at] : 1, entries = count ? count[at] : 1;
        if (positive[at]) {
          tp[g] += w;
          leftYes[g] -= entries;
          fn[g] = leftYes[g] === 0 ? 0 : yes[g] - tp[g];
        } else {
          fp[g] += w;
          leftNo[g] -= entries;
          tn[g] = leftNo[g] === 0 ? 0 : no[g] - fp[g];
        }
        // As in ratio(); written out, for this is where the time goes.
        const a = tp[g] * up[g], b = fp[g] * down[g], c = fn[g] * up[g], d = tn[g] * down[g];
        const below = low0 * a + low1 * b + low2 * c + low3 * d;
        const now = below !== 0 ? (top0 * a + top1 * b + top2 * c + top3 * d) / below : zero;
        const change = now - value[g], next = sum + change;
        carry += Math.abs(sum) >= Math.abs(change) ? sum - next + change : change - next + sum;
        sum = next;
        value[g] = now;
      }
      curve[k] = (sum + carry) / seen;
    }
    return curve;
  }

  // The counts of every label at one threshold.
  labelCounts(k) {
    const { positive, label, bin, count } = this.entries;
    const { n, yes, no, nYes, nNo } = this.groups("macro");
    const tp = new Float64Array(n), fp = new Float64Array(n);
    const leftYes = nYes.slice(), leftNo = nNo.slice();
    for (let i = 0; i < bin.length; i++) {
      if (bin[i] <= k) continue;
      const entries = count ? count[i] : 1;
      if (positive[i]) {
        tp[label[i]] += this.weightOf(i);
        leftYes[label[i]] -= entries;
      } else {
        fp[label[i]] += this.weightOf(i);
        leftNo[label[i]] -= entries;
      }
    }
    const fn = yes.map((total, j) => (leftYes[j] === 0 ? 0 : total - tp[j]));
    const tn = no.map((total, j) => (leftNo[j] === 0 ? 0 : total - fp[j]));
    return { tp, fp, fn, tn };
  }
}

// The highest threshold at which the curve is at its best; what rounding tells apart is a tie.
function bestPlace(curve) {
  let best = curve.length - 1;
  for (let k = curve.length - 2; k >= 0; k--) {
    if (curve[k] > curve[best] + 1e-12 * Math.max(1, Math.abs(curve[best]))) best = k;
  }
  return best;
}
