// Numbers on an axis: its range, its ticks, and which points of a long curve can be seen.

const PREFIXES = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

export const linear =
  ([low, high], [from, to]) =>
  (value) =>
    from + ((value - low) / (high - low)) * (to - from);

// The range of all numbers, with a margin; a single number has a range around it.
export function extent(lists, margin = 0) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  const more = low === high ? Math.abs(low) / 2 || 1 : margin * (high - low);
  return [low - more, high + more];
}

// Round numbers inside a range where there is room for so many (at least 5, at most 10), and how
// to write them.
export function ticks([low, high], room, percent = false) {
  const least = (high - low) / (Math.min(Math.max(room, 4), 9) + 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10]
    .map((factor) => factor * power)
    .find((one) => one >= least * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const values = Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
  return { values, write: writer(step, Math.max(Math.abs(low), Math.abs(high)), percent) };
}

const digitsOf = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));

function writer(step, largest, percent) {
  const minus = (text) => text.replace("-", "−");
  if (percent) return (value) => `${minus((100 * value).toFixed(digitsOf(100 * step)))}%`;
  if (largest < 1e-3)
    return (value) =>
      minus(value === 0 ? "0" : value.toExponential(Math.max(0, digitsOf(step / largest) - 1)));
  const [unit, prefix] = (largest >= 1e4 && PREFIXES.find(([one]) => largest >= one)) || [1, ""];
  return (value) => {
    const text = (value / unit).toFixed(digitsOf(step / unit)).replace(/\.0+$/, "");
    return minus(text === "0" ? text : text + prefix);
  };
}

// The points of a curve with increasing x that are drawn in a range: of each pixel the first, the
// lowest, the highest and the last. What leaves the range ends at its edge.
export function visiblePoints(x, y, [low, high], pixels) {
  const from = Math.max(0, firstIndex(x, (value) => value >= low) - 1);
  const to = Math.min(x.length, firstIndex(x, (value) => value > high) + 1);
  const points = [];
  const add = (k) => points.push(atEdge(x, y, k, low, high));
  if (to - from <= 4 * pixels) {
    for (let k = from; k < to; k++) add(k);
    return points;
  }
  for (let k = from; k < to;) {
    const pixel = Math.floor(((x[k] - low) / (high - low)) * pixels);
    const first = k;
    let [least, most] = [k, k];
    for (
      ;
      k < to && Math.floor(((x[k] - low) / (high - low)) * pixels) === pixel && isNumber(y[k]);
      k++
    ) {
      if (y[k] < y[least]) least = k;
      if (y[k] > y[most]) most = k;
    }
    if (k === first)
      add(k++); // a gap
    else [...new Set([first, Math.min(least, most), Math.max(least, most), k - 1])].forEach(add);
  }
  return points;
}

export const isNumber = (value) => value !== null && Number.isFinite(value);

function atEdge(x, y, k, low, high) {
  const other = x[k] < low ? k + 1 : x[k] > high ? k - 1 : k;
  if (other === k || !(other in x) || !isNumber(y[k]) || !isNumber(y[other])) return [x[k], y[k]];
  const edge = x[k] < low ? low : high;
  return [edge, y[k] + ((y[other] - y[k]) * (edge - x[k])) / (x[other] - x[k])];
}

function firstIndex(sorted, isAfter) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isAfter(sorted[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
