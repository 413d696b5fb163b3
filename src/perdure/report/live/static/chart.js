// The curves: one line per task for one run, one line per run for several.
import { average, deviation, groupRuns, mean } from "./groups.js";
import { element, meanName, number, options, setText, shorten, worst, worstName } from "./list.js";
import { isDark, onTheme } from "./theme.js";

const $ = (id) => document.getElementById(id);
const cssValue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (style) => (isDark() ? style.dark : style.colour);
const UNKNOWN = { colour: "#6b6b6b", dark: "#9b9b9b", dash: "solid" };
const MEAN = "";

// Plotly interprets tags and placeholders in its labels.
export const escapeLabel = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("%{", "% {");

export class Chart {
  constructor() {
    this.runs = []; // responses of /api/run
    this.styles = {};
    for (const id of ["what", "span", "single"]) $(id).addEventListener("input", () => this.draw());
    onTheme(() => this.soon());
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
    const [traces, ends] = many ? this.several(runs, groups) : this.one(runs[0]);
    if (!traces.length && !this.drawn) return;
    if (!window.Plotly) return this.load();
    this.drawn = true;
    const layout = this.layout(traces, runs, many, ends);
    Plotly.react("chart", traces, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
  }

  // Plotly takes a second or two to load: the list appears before it.
  load() {
    if (this.loading) return;
    this.loading = element("script");
    this.loading.onload = () => this.draw();
    this.loading.onerror = () => (this.loading = undefined);
    this.loading.src = "/static/plotly.min.js";
    document.head.append(this.loading);
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
    const traces = [];
    const ends = [];
    if (!run?.tasks) return [traces, ends];
    const last = lastStep(run);
    run.tasks.forEach((task, k) => {
      const paint = colour(task);
      traces.push(line(task, task.name, paint, task.dash));
      const low = run.worst[k];
      if (!low) return;
      const end = run.spans.find(([number]) => number === k)?.[2] ?? low[0];
      traces.push(level([end, last], low[1], paint));
      traces.push(mark(low, task.name, paint, run.row));
    });
    for (const [k, first, end] of run.spans) ends.push({ first, end, name: run.tasks[k]?.name ?? "" });
    return [traces, ends];
  }

  several(runs, groups) {
    const wanted = $("what").value;
    const traces = [];
    for (const group of groups) {
      const style = this.styles[group.first] ?? UNKNOWN;
      const paint = colour(style);
      const parts = group.runs.map((run) => part(run, wanted)).filter(Boolean);
      if (!parts.length) continue;
      const curves = parts.map(({ curve }) => curve);
      if (curves.length === 1) traces.push(line(curves[0], group.name, paint, style.dash));
      else traces.push(...this.mean(group, curves, paint, style.dash));
      const lows = parts.map(({ low }) => low).filter((low) => low !== null);
      if (lows.length && sameTasks(group)) traces.push(level([Math.min(...parts.map(({ first }) => first)), Math.max(...parts.map(({ last }) => last))], mean(lows), paint));
    }
    const [longest] = runs.filter((run) => run.tasks).sort((a, b) => lastStep(b) - lastStep(a));
    const ends = (longest?.spans ?? []).map(([, first, end]) => ({ first, end, name: "" }));
    return [traces, ends];
  }

  // The mean over seeds with a band of one SD, and the single runs on request.
  mean(group, curves, paint, dash) {
    const middle = average(curves);
    const traces = [];
    if ($("single").checked) {
      group.runs.forEach((run, k) => curves[k] && traces.push({ ...line(curves[k], run.row.name, paint, "solid"), opacity: 0.45 }));
      for (const trace of traces) trace.line.width = 1;
    }
    if (middle.steps.length > 1) traces.unshift(band(middle, paint, rangeOf(curves, group.runs)));
    if (middle.steps.length) traces.push(line(middle, group.name, paint, dash));
    return traces;
  }

  layout(traces, runs, many, ends) {
    const ink = cssValue("--ink");
    const quiet = cssValue("--quiet");
    const grid = cssValue("--grid");
    const scores = traces.flatMap((trace) => trace.y);
    const name = same(runs, (row) => row.score) ?? "score";
    const lower = same(runs, (row) => row.lower) ? " (lower is better)" : "";
    const share = areShares(scores, runs);
    const axis = { gridcolor: grid, linecolor: cssValue("--line"), zeroline: false, tickfont: { color: quiet }, title: { font: { color: quiet, size: 13 } } };
    return {
      margin: { l: 52, r: 12, t: 26, b: 44 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: ink },
      showlegend: false, hovermode: "closest",
      hoverlabel: { bgcolor: cssValue("--card"), bordercolor: cssValue("--line"), font: { color: ink } },
      uirevision: [many, $("span").value, $("what").value, ...runs.map((run) => run.row.name)].join("\n"),
      xaxis: { ...axis, title: { ...axis.title, text: "iterations" }, showgrid: false, ...range(ends, runs) },
      yaxis: { ...axis, title: { ...axis.title, text: escapeLabel(`${many && $("what").value === MEAN ? `mean ${name} over the tasks learned` : name}${lower}`) }, ...(share ? { range: [-0.02, 1.04] } : { autorange: true }) },
      shapes: ends.slice(0, -1).map(({ end }) => ({ type: "line", x0: end, x1: end, yref: "paper", y0: 0, y1: 1, line: { color: quiet, width: 1 }, opacity: 0.55, layer: "below" })),
      annotations: many ? [] : names(ends, quiet),
    };
  }

  taskTable(run) {
    const rows = run.tasks.map((task, k) => {
      const low = run.worst[k];
      const learned = low ? low[2] : null;
      const now = task.scores.at(-1);
      const drop = low && learned !== null ? (run.row.lower ? low[1] - learned : learned - low[1]) : null;
      return [withSwatch(task.name, colour(task), task.dash), number(now), number(learned), number(low?.[1]), low ? String(low[0]) : "–", number(drop)];
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
      if (members.length === 1) return [[withSwatch(group.name, colour(style), style.dash), ...cells(members[0])]];
      const whole = [name(members[0], spread(group, "acc")), name(members[0], spread(group, "min_acc")), states(members), extent(members, (row) => row.tasks), extent(members, (row) => row.step)];
      const single = $("single").checked ? members.map((row) => [inset(row.name), ...cells(row)]) : [];
      return [[withSwatch(`${group.name} (${members.length} seeds)`, colour(style), style.dash), ...whole], ...single];
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

const line = (curve, name, paint, dash) => ({
  type: "scatter", mode: curve.steps.length < 3 ? "lines+markers" : "lines", x: curve.steps, y: curve.scores,
  name: escapeLabel(shorten(name, 60)), line: { color: paint, width: 2, dash, simplify: false }, marker: { color: paint, size: 6 },
  hovertemplate: `%{y:.3f} at step %{x}<extra>${escapeLabel(shorten(name, 60))}</extra>`,
});
const areShares = (scores, runs) => scores.every((y) => y >= 0 && y <= 1) && !runs.some((run) => run.row.lower);
const rangeOf = (curves, runs) => (areShares(curves.flatMap((curve) => curve.scores), runs) ? [0, 1] : [-Infinity, Infinity]);

// A band does not reach beyond possible scores.
function band({ steps, scores, sd }, paint, [low, high]) {
  const up = scores.map((y, k) => Math.min(y + sd[k], high));
  const down = scores.map((y, k) => Math.max(y - sd[k], low));
  return {
    type: "scatter", mode: "lines", x: steps.concat(steps.toReversed()), y: up.concat(down.reverse()),
    fill: "toself", fillcolor: `${paint}2e`, line: { width: 0 }, hoverinfo: "skip",
  };
}
const level = (x, y, paint) => ({
  type: "scatter", mode: "lines", x, y: [y, y], line: { color: paint, width: 1.4, dash: "dot" }, hoverinfo: "skip",
});
const mark = (low, name, paint, row) => ({
  type: "scatter", mode: "markers", x: [low[0]], y: [low[1]], marker: { color: paint, size: 9, symbol: row.lower ? "triangle-up" : "triangle-down" },
  hovertemplate: `${worst(row)}: %{y:.3f} at step %{x}<extra>${escapeLabel(shorten(name, 60))}</extra>`,
});

function range(ends, runs) {
  const last = Math.max(1, ...runs.filter((run) => run.tasks).map(lastStep));
  const kind = $("span").value;
  const at = ends.at(-2)?.end;
  if (kind === "last") return { range: [Math.max(0, last - 200), last + 2], autorange: false };
  if (kind === "switch" && at !== undefined) {
    const after = Math.min(Math.max(last - at, 10), 200);
    return { range: [at - after / 6, at + after], autorange: false };
  }
  return { range: [0, last * 1.01], autorange: false };
}

// Task names above the curves, if there is room for them.
function names(ends, quiet) {
  if (ends.length > 12) return [];
  return ends.map(({ first, end, name }) => ({
    x: (first + end) / 2, y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
    text: escapeLabel(shorten(name, Math.max(4, Math.floor(90 / ends.length)))), font: { size: 12, color: quiet },
  }));
}

const DASHES = { dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
const SVG = "http://www.w3.org/2000/svg";

// A name with a piece of its line.
function withSwatch(text, paint, dash) {
  const cell = element("span", "named");
  const swatch = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "line");
  for (const [name, value] of Object.entries({ width: 26, height: 12, "aria-hidden": "true", class: "swatch" })) swatch.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 6, y2: 6, stroke: paint, "stroke-width": 3, "stroke-dasharray": DASHES[dash] ?? "none" })) line.setAttribute(name, value);
  swatch.append(line);
  const name = element("span");
  name.textContent = text;
  cell.append(swatch, name);
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
