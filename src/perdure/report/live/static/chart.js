// The curves: one line per task for one run, one line per run for several.
import { average, deviation, groupRuns, mean } from "./groups.js";
import { element, meanName, number, options, setText, shorten, worst, worstName } from "./list.js";
import { swatch } from "./elements.js";
import { Plot } from "./plot.js";

const $ = (id) => document.getElementById(id);
const UNKNOWN = { colour: "#6b6b6b", dark: "#9b9b9b", dash: "solid" };
const MEAN = "";

export class Chart {
  constructor() {
    this.runs = []; // responses of /api/run
    this.styles = {};
    for (const id of ["what", "span", "single"]) $(id).addEventListener("input", () => this.draw());
    this.plot = new Plot($("chart"));
  }

  soon() {
    this.timer ??= setTimeout(() => requestAnimationFrame(() => this.draw()), 120);
  }

  draw() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const runs = this.runs.filter((run) => run && run.row);
    const many = runs.length > 1;
    $("tools").hidden = !runs.some((run) => run.tasks);
    $("what-label").hidden = $("clear").hidden = !many;
    const groups = groupRuns(runs);
    $("single-label").hidden = groups.length === runs.length;
    this.showText(runs, many, groups);
    if (many) this.fillTasks(runs);
    const [series, ends] = many ? this.several(runs, groups) : this.one(runs[0]);
    this.plot.draw(this.figure(series, runs, many, ends));
  }

  showText(runs, many, groups) {
    const [run] = runs;
    const seeds = groups.length < runs.length;
    const methods = seeds ? ` of ${groups.length} method${groups.length === 1 ? "" : "s"}` : "";
    setText($("shown-title"), !run ? "No run selected" : many ? `${runs.length} runs${methods} compared` : run.row.name);
    const facts = run && !many ? [run.row.state, run.row.setting, run.row.model].filter(Boolean).join(" · ") : "";
    setText($("shown-about"), facts);
    const problems = runs.filter(({ row }) => row.problem).map(({ row }) => `${many ? `${row.name}: ` : ""}${row.problem}`);
    $("problem").hidden = !problems.length;
    setText($("problem"), problems.join("; "));
    const alarms = runs.filter(({ row }) => row.alarm).map(({ row }) => `${many ? `${row.name}: ` : ""}${row.alarm}`);
    $("alarm").hidden = !alarms.length;
    setText($("alarm"), alarms.join("; "));
    setText($("hint"), !run ? "Select a run in the list, or tick several to compare them."
      : !runs.some((one) => one.tasks) ? "No scores recorded yet."
      : many ? `${seeds ? "Lines are means over seeds, bands one SD; a mean ends where the shortest of its runs ends. " : ""}Dotted lines: the ${same(runs, worst) ?? "worst"} score since learned. Double-click to reset the zoom.`
      : `Vertical lines: one task ends and the next begins. Dotted lines with a mark: the ${worst(run.row)} ${run.row.score} since the task was learned.`);
    $("chart").hidden = !runs.some((one) => one.tasks);
    $("table").replaceChildren(...(many ? [this.runTable(runs, groups)] : run?.tasks ? [this.taskTable(run)] : []));
    $("figures").replaceChildren(...(run?.tasks && !many ? this.figures(run).map(figure) : []));
    $("details").hidden = many || !run?.details.length;
    if (!$("details").hidden) $("details").lastElementChild.replaceChildren(...run.details.flatMap(pair));
  }

  fillTasks(runs) {
    const names = [...new Set(runs.flatMap((run) => (run.tasks ?? []).map((task) => task.name)))];
    options($("what"), names.slice(0, 300), (name) => `task ${name}`, "mean over the tasks learned");
  }

  one(run) {
    if (!run?.tasks) return [[], []];
    const last = lastStep(run);
    const series = run.tasks.flatMap((task, k) => {
      const low = run.worst[k];
      if (!low) return [line(task, task.name, task)];
      const end = run.spans.find(([number]) => number === k)?.[2] ?? low[0];
      return [line(task, task.name, task), level([end, last], low[1], task), mark(low, task.name, task, run.row)];
    });
    return [series, run.spans.map(([k, first, end]) => ({ first, end, name: run.tasks[k]?.name ?? "" }))];
  }

  several(runs, groups) {
    const wanted = $("what").value;
    const series = [];
    for (const group of groups) {
      const style = this.styles[group.first] ?? UNKNOWN;
      const parts = group.runs.map((run) => part(run, wanted)).filter(Boolean);
      if (!parts.length) continue;
      const curves = parts.map(({ curve }) => curve);
      if (curves.length === 1) series.push(line(curves[0], group.name, style));
      else series.push(...this.mean(group, curves, style));
      const lows = parts.map(({ low }) => low).filter((low) => low !== null);
      if (lows.length && sameTasks(group)) series.push(level([Math.min(...parts.map(({ first }) => first)), Math.max(...parts.map(({ last }) => last))], mean(lows), style));
    }
    const [longest] = runs.filter((run) => run.tasks).sort((a, b) => lastStep(b) - lastStep(a));
    const ends = (longest?.spans ?? []).map(([, first, end]) => ({ first, end, name: "" }));
    return [series, ends];
  }

  // The mean over seeds with a band of one SD, and the single runs on request.
  mean(group, curves, style) {
    const middle = average(curves);
    const series = [];
    if (middle.steps.length > 1) series.push(band(middle, style, rangeOf(curves, group.runs)));
    if ($("single").checked) {
      const solid = { ...style, dash: "solid" };
      group.runs.forEach((run, k) => curves[k] && series.push({ ...line(curves[k], run.row.name, solid), width: 1, faint: true }));
    }
    if (middle.steps.length) series.push(line(middle, group.name, style));
    return series;
  }

  figure(series, runs, many, ends) {
    const name = same(runs, (row) => row.score) ?? "score";
    const lower = same(runs, (row) => row.lower) ? " (lower is better)" : "";
    const isMean = many && $("what").value === MEAN;
    const scores = series.flatMap((one) => (one.low ? [one.low, one.high] : [one.y]));
    return {
      series,
      key: [many, $("span").value, $("what").value, ...runs.map((run) => run.row.name)].join("\n"),
      x: { title: "iterations", range: range(ends, runs) },
      y: { title: `${isMean ? `mean ${name} over the tasks learned` : name}${lower}`, range: areShares(scores, runs) ? [-0.02, 1.04] : undefined },
      boundaries: ends.slice(0, -1).map(({ end }) => end),
      labels: many ? [] : names(ends),
    };
  }

  taskTable(run) {
    const rows = run.tasks.map((task, k) => {
      const low = run.worst[k];
      const learned = low ? low[2] : null;
      const now = task.scores.at(-1);
      const drop = low && learned !== null ? (run.row.lower ? low[1] - learned : learned - low[1]) : null;
      return [withSwatch(task.name, task), number(now), number(learned), number(low?.[1]), low ? String(low[0]) : "–", number(drop)];
    });
    return makeTable(["task", "now", "when learned", `${worst(run.row)} since`, "at step", "largest loss"], rows);
  }

  figures({ row, costs, tasks_left_out: leftOut }) {
    const figures = [[`${meanName(row)} so far`, number(row.acc)], [worstName(row), number(row.min_acc)], ["iterations", String(row.step ?? "–")]];
    if (row.of || row.tasks) figures.push(["tasks learned", row.of ? `${row.tasks ?? 0} of ${row.of}` : String(row.tasks)]);
    const seconds = costs.map((cost) => cost.seconds_train).filter((value) => value !== null && value !== undefined);
    if (seconds.length) figures.push(["training time", time(seconds.reduce((a, b) => a + b, 0))]);
    if (leftOut) figures.push(["tasks not shown", String(leftOut)]);
    return figures;
  }

  runTable(runs, groups) {
    const alike = same(runs, (row) => row.score) !== undefined;
    const name = (row, text) => (alike ? text : `${row.score} ${text}`);
    const cells = (row) => [name(row, number(row.acc)), name(row, number(row.min_acc)), row.state, `${row.tasks ?? 0}${row.of ? `/${row.of}` : ""}`, String(row.step ?? "–")];
    const rows = groups.flatMap((group) => {
      const style = this.styles[group.first] ?? UNKNOWN;
      const members = group.runs.map(({ row }) => row);
      if (members.length === 1) return [[withSwatch(group.name, style), ...cells(members[0])]];
      const whole = [name(members[0], spread(group, "acc")), name(members[0], spread(group, "min_acc")), states(members), extent(members, (row) => row.tasks), extent(members, (row) => row.step)];
      const single = $("single").checked ? members.map((row) => [inset(row.name), ...cells(row)]) : [];
      return [[withSwatch(`${group.name} (${members.length} seeds)`, style), ...whole], ...single];
    });
    return makeTable([groups.length < runs.length ? "method or run" : "run", same(runs, meanName) ?? "mean score", same(runs, worstName) ?? "worst since learned", "state", "tasks", "step"], rows);
  }
}

// The curve of a run that is compared: the mean over its tasks, or one task.
function part(run, wanted) {
  if (!run.tasks) return null;
  const k = run.tasks.findIndex((task) => task.name === wanted);
  const curve = wanted === MEAN ? run.mean : run.tasks[k];
  if (!curve?.steps.length) return null;
  const first = run.spans.find(([number]) => wanted === MEAN || number === k)?.[2] ?? run.spans[0]?.[2] ?? 0;
  const low = wanted === MEAN ? run.row.min_acc : run.worst[k]?.[1] ?? null;
  return { curve, low, first, last: lastStep(run) };
}

function states(rows) {
  const counts = {};
  for (const row of rows) counts[row.state] = (counts[row.state] ?? 0) + 1;
  const names = Object.keys(counts);
  return names.length === 1 ? names[0] : names.map((state) => `${counts[state]} ${state}`).join(", ");
}

function extent(rows, value) {
  const values = rows.map((row) => value(row) ?? 0);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return least === most ? String(most) : `${least}–${most}`;
}

// Runs that have learned different numbers of tasks have no common mean.
const sameTasks = (group) => new Set(group.runs.map(({ row }) => row.tasks)).size === 1;

function spread(group, field) {
  const values = group.runs.map(({ row }) => row[field]).filter((value) => value !== null && value !== undefined);
  if (values.length < 2) return number(values[0]);
  if (!sameTasks(group)) return `${number(Math.min(...values))} to ${number(Math.max(...values))}`;
  return `${number(mean(values))} ± ${number(deviation(values))}`;
}

// The value that all runs share, undefined if they differ.
function same(runs, value) {
  const all = new Set(runs.map((run) => value(run.row)));
  return all.size === 1 ? [...all][0] : undefined;
}

const lastStep = (run) => run.mean.steps.at(-1) ?? Math.max(0, ...run.tasks.map((task) => task.steps.at(-1) ?? 0));

const line = ({ steps, scores }, name, style) => ({
  kind: "line", x: steps, y: scores, name: shorten(name, 60), style, symbol: steps.length < 3 ? "circle" : undefined,
  describe: (k) => `${number(scores[k])} at step ${steps[k]}`,
});
const areShares = (lists, runs) => lists.every((list) => list.every((y) => y >= 0 && y <= 1)) && !runs.some((run) => run.row.lower);
const rangeOf = (curves, runs) => (areShares(curves.map((curve) => curve.scores), runs) ? [0, 1] : [-Infinity, Infinity]);

// A band does not reach beyond possible scores.
const band = ({ steps, scores, sd }, style, [low, high]) => ({
  kind: "band", x: steps, style,
  high: scores.map((y, k) => Math.min(y + sd[k], high)), low: scores.map((y, k) => Math.max(y - sd[k], low)),
});
const level = (x, y, style) => ({ kind: "line", x, y: [y, y], style: { ...style, dash: "dotted" }, width: 1.4 });
const mark = ([step, score], name, style, row) => ({
  kind: "marks", x: [step], y: [score], name: shorten(name, 60), style, symbol: row.lower ? "up" : "down",
  describe: () => `${worst(row)}: ${number(score)} at step ${step}`,
});

function range(ends, runs) {
  const last = Math.max(1, ...runs.filter((run) => run.tasks).map(lastStep));
  const kind = $("span").value;
  const at = ends.at(-2)?.end;
  if (kind === "last") return [Math.max(0, last - 200), last + 2];
  if (kind === "switch" && at !== undefined) {
    const after = Math.min(Math.max(last - at, 10), 200);
    return [at - after / 6, at + after];
  }
  return [0, last * 1.01];
}

// Task names above the curves, if there is room for them.
function names(ends) {
  if (ends.length > 12) return [];
  const most = Math.max(4, Math.floor(90 / ends.length));
  return ends.map(({ first, end, name }) => ({ x: (first + end) / 2, text: shorten(name, most) }));
}

// A name with a piece of its line.
function withSwatch(text, style) {
  const name = element("span");
  name.textContent = text;
  const cell = element("span", "named");
  cell.append(swatch(style), name);
  return cell;
}

function inset(text) {
  const name = element("span", "inset");
  name.textContent = text;
  return name;
}

function makeTable(heads, rows) {
  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const text of heads) {
    const cell = element("th");
    cell.scope = "col";
    cell.textContent = text;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((content, k) => {
      const cell = element(k ? "td" : "th");
      if (!k) cell.scope = "row";
      cell.append(content);
      line.append(cell);
    });
  }
  return table;
}

const time = (seconds) => (seconds < 120 ? `${Math.round(seconds)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`);

function figure([name, value]) {
  const both = element("div");
  both.append(...pair([name, value]));
  return both;
}

function pair([name, value]) {
  const term = element("dt");
  term.textContent = name;
  const description = element("dd");
  description.textContent = value;
  return [term, description];
}
