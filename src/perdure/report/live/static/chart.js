// The curves: one line per task for one run, one line per run for several.
import { element, meanName, number, options, setText, shorten, worst, worstName } from "./list.js";

const $ = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const cssValue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (style) => (dark.matches ? style.dark : style.colour);
const MEAN = "";

// Plotly interprets tags and placeholders in its labels.
export const escapeLabel = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("%{", "% {");

export class Chart {
  constructor() {
    this.runs = []; // responses of /api/run
    this.styles = {};
    for (const id of ["what", "span"]) $(id).addEventListener("input", () => this.draw());
    dark.addEventListener("change", () => this.draw());
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
    this.showText(runs, many);
    if (many) this.fillTasks(runs);
    const [traces, ends] = many ? this.several(runs) : this.one(runs[0]);
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

  showText(runs, many) {
    const [run] = runs;
    setText($("shown-title"), !run ? "No run selected" : many ? `${runs.length} runs compared` : run.row.name);
    const facts = run && !many ? [run.row.state, run.row.setting, run.row.model].filter(Boolean).join(" · ") : "";
    setText($("shown-about"), facts);
    const problems = runs.filter(({ row }) => row.problem).map(({ row }) => `${many ? `${row.name}: ` : ""}${row.problem}`);
    $("problem").hidden = !problems.length;
    setText($("problem"), problems.join("; "));
    setText($("hint"), !run ? "Select a run in the list, or tick several to compare them."
      : !runs.some((one) => one.tasks) ? "No scores recorded yet."
      : many ? `Dotted lines: the ${same(runs, worst) ?? "worst"} score since learned. Double-click to reset the zoom.`
      : `Vertical lines: one task ends and the next begins. Dotted lines with a mark: the ${worst(run.row)} ${run.row.score} since the task was learned.`);
    $("chart").hidden = !runs.some((one) => one.tasks);
    $("table").replaceChildren(...(many ? [this.runTable(runs)] : run?.tasks ? [this.taskTable(run)] : []));
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
      traces.push(line(task, task.name, paint, "solid"));
      const low = run.worst[k];
      if (!low) return;
      const end = run.spans.find(([number]) => number === k)?.[2] ?? low[0];
      traces.push(level([end, last], low[1], paint));
      traces.push(mark(low, task.name, paint, run.row));
    });
    for (const [k, first, end] of run.spans) ends.push({ first, end, name: run.tasks[k]?.name ?? "" });
    return [traces, ends];
  }

  several(runs) {
    const wanted = $("what").value;
    const traces = [];
    for (const run of runs) {
      if (!run.tasks) continue;
      const style = this.styles[run.row.name] ?? { colour: "#6b6b6b", dark: "#9b9b9b", dash: "solid" };
      const paint = colour(style);
      const k = run.tasks.findIndex((task) => task.name === wanted);
      const curve = wanted === MEAN ? run.mean : run.tasks[k];
      if (!curve) continue;
      traces.push(line(curve, run.row.name, paint, style.dash));
      const first = run.spans[0]?.[2] ?? 0;
      if (wanted === MEAN && run.row.min_acc !== null) traces.push(level([first, lastStep(run)], run.row.min_acc, paint));
      if (wanted !== MEAN && run.worst[k]) traces.push(level([run.spans.find(([n]) => n === k)?.[2] ?? first, lastStep(run)], run.worst[k][1], paint));
    }
    const [longest] = runs.filter((run) => run.tasks).sort((a, b) => lastStep(b) - lastStep(a));
    const ends = (longest?.spans ?? []).map(([, first, end]) => ({ first, end, name: "" }));
    return [traces, ends];
  }

  layout(traces, runs, many, ends) {
    const ink = cssValue("--ink");
    const quiet = cssValue("--quiet");
    const grid = cssValue("--grid");
    const scores = traces.flatMap((trace) => trace.y);
    const name = same(runs, (row) => row.score) ?? "score";
    const lower = same(runs, (row) => row.lower) ? " (lower is better)" : "";
    const share = scores.every((y) => y >= 0 && y <= 1) && !runs.some((run) => run.row.lower);
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
      return [withSwatch(task.name, colour(task), "solid"), number(now), number(learned), number(low?.[1]), low ? String(low[0]) : "–", number(drop)];
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

  runTable(runs) {
    const alike = same(runs, (row) => row.score) !== undefined;
    const value = (row, field) => (alike ? number(row[field]) : `${row.score} ${number(row[field])}`);
    const rows = runs.map(({ row }) => {
      const style = this.styles[row.name] ?? { colour: "#6b6b6b", dark: "#9b9b9b", dash: "solid" };
      return [withSwatch(row.name, colour(style), style.dash), row.state, `${row.tasks ?? 0}${row.of ? `/${row.of}` : ""}`, String(row.step ?? "–"), value(row, "acc"), value(row, "min_acc")];
    });
    return makeTable(["run", "state", "tasks", "step", same(runs, meanName) ?? "mean score", same(runs, worstName) ?? "worst since learned"], rows);
  }
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

function withSwatch(text, paint, dash) {
  const cell = document.createDocumentFragment();
  const swatch = element("span", "swatch");
  swatch.style.borderTopColor = paint;
  swatch.style.borderTopStyle = { dash: "dashed", dot: "dotted", dashdot: "dashed" }[dash] ?? "solid";
  cell.append(swatch, text);
  return cell;
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
