/** Scales of a plot: values to places, linear and logarithmic, with their ticks. */

const STEPS = [1, 2, 2.5, 5, 10];

/** Return round numbers between two, about `wanted` of them. */
function evenTicks(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * STEPS.find((each) => each * power >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

/** Return powers of ten, and thirds between them where there are few. */
function logTicks(low, high, wanted) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const decades = last - first + 1;
  if (decades < 2 && high / low < 30) return evenTicks(low, high, wanted);
  const every = Math.max(1, Math.ceil(decades / wanted)), ticks = [];
  for (let k = first - 1; k <= last + 1; k++) {
    for (const part of decades <= wanted / 2 ? [1, 3] : [1]) {
      const tick = Number((part * 10 ** k).toPrecision(6));
      if (tick >= low * 0.999 && tick <= high * 1.001 && k % every === 0) ticks.push(tick);
    }
  }
  return ticks;
}

/** A scale between the least and the largest value; on a logarithmic one only values above 0 have a place. */
export class Scale {
  constructor(low, high, log, spare = 0) {
    this.log = log && high > 0;
    if (!Number.isFinite(low) || !Number.isFinite(high)) [low, high] = [0, 1];
    if (low === high) [low, high] = this.log ? [low / 2, high * 2] : [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
    const [a, b] = this.log ? [Math.log(low), Math.log(high)] : [low, high];
    this.from = a - spare * (b - a);
    this.over = (b - a) * (1 + 2 * spare);
    [this.low, this.high] = this.log ? [Math.exp(this.from), Math.exp(this.from + this.over)] : [this.from, this.from + this.over];
  }

  /** Place of a value between 0 and 1; NaN where it has none. */
  at(value) {
    if (value === null || (this.log && value <= 0)) return NaN;
    return ((this.log ? Math.log(value) : value) - this.from) / this.over;
  }

  ticks(wanted) {
    return this.log ? logTicks(this.low, this.high, wanted) : evenTicks(this.low, this.high, wanted);
  }
}

/** Return a tick as text: 0.3, 1,000, 2 M, 1e-12. */
export function tickText(value) {
  const size = Math.abs(value), unit = Math.floor(Math.log10(size) / 3 + 1e-9);
  if (size >= 1e6 && size < 1e15) return `${tickText(Number((value / 1000 ** unit).toPrecision(6)))} ${" kMGT"[unit]}`;
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential().replace("e+", "e").replace("-", "−").replace("e-", "e−");
  return value.toLocaleString("en-GB", { maximumSignificantDigits: 6 }).replace("-", "−");
}

/** Return the least and the largest of the values in lists that may hold null; of those above 0 alone for a logarithm. */
export function ends(lists, log) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) {
    for (const value of list) {
      if (value === null || (log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return [low, high];
}

/** Return means over the last `window` values; a gap stays a gap. */
export function smoothed(values, window) {
  if (window <= 1 || values === null) return values;
  let sum = 0, known = 0;
  return values.map((value, k) => {
    if (value !== null) { sum += value; known += 1; }
    const gone = k >= window ? values[k - window] : null;
    if (gone !== null) { sum -= gone; known -= 1; }
    return value === null || !known ? null : sum / known;
  });
}

/** Return the places in a list that a line of `columns` points needs: the least and the largest of each column, and the ends. */
export function thinned(values, columns) {
  if (values.length <= 2 * columns) return values.map((_, k) => k);
  const kept = [0], each = values.length / columns;
  for (let column = 0; column < columns; column++) {
    const from = Math.floor(column * each), to = Math.floor((column + 1) * each);
    let low = from, high = from;
    for (let k = from; k < to; k++) {
      if (values[k] === null) { kept.push(k); continue; }
      if (values[low] === null || values[k] < values[low]) low = k;
      if (values[high] === null || values[k] > values[high]) high = k;
    }
    kept.push(low, high);
  }
  return [...new Set([...kept, values.length - 1])].sort((a, b) => a - b);
}
