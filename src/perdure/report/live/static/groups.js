// Runs of one method: what its options are, and the mean of its seeds.

const MAX_STEPS = 4000; // of a mean curve

export const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const kindOf = (row) => [row.scenario, row.setting, row.strategy, row.model].join("\n");

// The options in which methods of one strategy differ: a map from the kind of a row to their names.
export function differingOptions(rows) {
  const kinds = new Map();
  for (const row of new Map([...rows].filter((row) => row.group).map((row) => [row.group, row])).values()) {
    const kind = kindOf(row);
    if (!kinds.has(kind)) kinds.set(kind, []);
    kinds.get(kind).push(row.options);
  }
  for (const [kind, several] of kinds) {
    const keys = new Set(several.flatMap((options) => Object.keys(options)));
    kinds.set(kind, [...keys].filter((key) => several.some((options) => options[key] !== several[0][key])));
  }
  return kinds;
}

export function optionsText(row, differing) {
  const keys = (row.group && differing.get(kindOf(row))) || [];
  return keys.map((key) => `${key.split(".").at(-1)}=${shorten(row.options[key] ?? "unset", 24)}`).join(" ");
}

// Runs that differ in nothing but the seed belong together; others are never averaged, nor is a
// seed that occurs twice.
export function groupRuns(runs) {
  const groups = new Map();
  for (const run of runs) {
    const method = `method ${run.row.group}`;
    const twice = groups.get(method)?.some(({ row }) => row.seed === run.row.seed);
    const key = run.row.group && !twice ? method : `run ${run.row.name}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(run);
  }
  const differing = differingOptions(runs.map((run) => run.row));
  const fields = ["scenario", "setting", "model"].filter((field) => new Set(runs.map(({ row }) => row[field]).filter(Boolean)).size > 1);
  return [...groups.values()].map((members) => {
    const { row } = members[0];
    const strategy = shorten((row.strategy || "method").replace(/^.*[./].*:(?=\w+$)/, ""), 40);
    const name = [...fields.map((field) => row[field]), strategy, optionsText(row, differing)].filter(Boolean).join(" ");
    return { runs: members, first: row.name, name: members.length > 1 ? name : row.name };
  });
}

// Mean and SD of several curves, over the steps that all of them have reached.
export function average(curves) {
  const first = Math.max(...curves.map((curve) => curve.steps[0]));
  const last = Math.min(...curves.map((curve) => curve.steps.at(-1)));
  let steps = [...new Set(curves.flatMap((curve) => curve.steps))].filter((step) => step >= first && step <= last);
  steps.sort((a, b) => a - b);
  const every = Math.ceil(steps.length / MAX_STEPS);
  steps = steps.filter((_, k) => k % every === 0 || k === steps.length - 1);
  const columns = curves.map((curve) => interpolate(curve, steps));
  const scores = steps.map((_, k) => mean(columns.map((column) => column[k])));
  const sd = steps.map((_, k) => deviation(columns.map((column) => column[k])));
  return { steps, scores, sd };
}

function interpolate({ steps, scores }, wanted) {
  let k = 0;
  return wanted.map((step) => {
    while (k + 1 < steps.length && steps[k + 1] <= step) k += 1;
    if (steps[k] === step || k + 1 === steps.length) return scores[k];
    return scores[k] + (scores[k + 1] - scores[k]) * (step - steps[k]) / (steps[k + 1] - steps[k]);
  });
}

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

export function deviation(values) {
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}
