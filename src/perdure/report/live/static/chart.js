// The curves: of one run a line a task, of several a line a run.
import { element, meanName, number, options, say, short, worst, worstName } from "./list.js";

const $ = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (look) => (dark.matches ? look.dark : look.colour);
const MEAN = "";

// Plotly reads tags and placeholders in its labels.
export const plain = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("%{", "% {");

export class Chart {
  constructor() {
    this.runs = []; // what /api/run says of each
    this.looks = {};
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
    this.words(runs, many);
    if (many) this.tasks(runs);
    const [traces, ends] = many ? this.several(runs) : this.one(runs[0]);
    if (!traces.length && !this.drawn) return;
    if (!window.Plotly) return this.load();
    this.drawn = true;
    const layout = this.layout(traces, runs, many, ends);
    Plotly.react("chart", traces, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
  }

  // It takes a second or two to start: the list is there before it.
  load() {
    if (this.loading) return;
    this.loading = element("script");
    this.loading.onload = () => this.draw();
    this.loading.onerror = () => (this.loading = undefined);
    this.loading.src = "/static/plotly.min.js";
    document.head.append(this.loading);
  }

  words(runs, many) {
    const [run] = runs;
    say($("shown-title"), !run ? "Nothing chosen" : many ? `${runs.length} runs compared` : run.row.name);
    const about = run && !many ? [run.row.state, run.row.setting, run.row.model].filter(Boolean).join(" · ") : "";
    say($("shown-about"), about);
    const problems = runs.filter((each) => each.row.problem).map((each) => `${many ? `${each.row.name}: ` : ""}${each.row.problem}`);
    $("problem").hidden = !problems.length;
    say($("problem"), problems.join("; "));
    say($("hint"), !run ? "Choose a run in the list, or tick several to compare them."
      : !runs.some((each) => each.tasks) ? "No scores recorded yet."
      : many ? `Dotted: the ${same(runs, worst) ?? "worst"} since it was learned. Double-click resets a zoom.`
      : `Vertical: a task ends, the next begins. Dotted, with a mark: the ${worst(run.row)} ${run.row.score} since the task was learned.`);
    $("chart").hidden = !runs.some((each) => each.tasks);
    $("table").replaceChildren(...(many ? [this.runTable(runs)] : run?.tasks ? [this.taskTable(run)] : []));
    $("figures").replaceChildren(...(run?.tasks && !many ? this.figures(run).map(figure) : []));
    $("about").hidden = many || !run?.about.length;
    if (!$("about").hidden) $("about").lastElementChild.replaceChildren(...run.about.flatMap(pair));
  }

  tasks(runs) {
    const names = [...new Set(runs.flatMap((run) => (run.tasks ?? []).map((task) => task.name)))];
    options($("what"), names.slice(0, 300), (name) => `task ${name}`, "mean over the tasks seen");
  }

  one(run) {
    const traces = [];
    const ends = [];
    if (!run?.tasks) return [traces, ends];
    const last = lastStep(run);
    run.tasks.forEach((task, k) => {
      const paint = colour(task);
      traces.push(line(task, task.name, paint, "solid"));
      const low = run.lows[k];
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
      const look = this.looks[run.row.name] ?? { colour: "#6b6b6b", dark: "#9b9b9b", dash: "solid" };
      const paint = colour(look);
      const k = run.tasks.findIndex((task) => task.name === wanted);
      const curve = wanted === MEAN ? run.mean : run.tasks[k];
      if (!curve) continue;
      traces.push(line(curve, run.row.name, paint, look.dash));
      const first = run.spans[0]?.[2] ?? 0;
      if (wanted === MEAN && run.row.min_acc !== null) traces.push(level([first, lastStep(run)], run.row.min_acc, paint));
      if (wanted !== MEAN && run.lows[k]) traces.push(level([run.spans.find(([n]) => n === k)?.[2] ?? first, lastStep(run)], run.lows[k][1], paint));
    }
    const [longest] = runs.filter((run) => run.tasks).sort((a, b) => lastStep(b) - lastStep(a));
    const ends = (longest?.spans ?? []).map(([, first, end]) => ({ first, end, name: "" }));
    return [traces, ends];
  }

  layout(traces, runs, many, ends) {
    const ink = style("--ink");
    const quiet = style("--quiet");
    const grid = style("--grid");
    const scores = traces.flatMap((trace) => trace.y);
    const name = same(runs, (row) => row.score) ?? "score";
    const lower = same(runs, (row) => row.lower) ? " (lower is better)" : "";
    const share = scores.every((y) => y >= 0 && y <= 1) && !runs.some((run) => run.row.lower);
    const axis = { gridcolor: grid, linecolor: style("--line"), zeroline: false, tickfont: { color: quiet }, title: { font: { color: quiet, size: 13 } } };
    return {
      margin: { l: 52, r: 12, t: 26, b: 44 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: ink },
      showlegend: false, hovermode: "closest",
      hoverlabel: { bgcolor: style("--card"), bordercolor: style("--line"), font: { color: ink } },
      uirevision: [many, $("span").value, $("what").value, ...runs.map((run) => run.row.name)].join("\n"),
      xaxis: { ...axis, title: { ...axis.title, text: "iterations" }, showgrid: false, ...range(ends, runs) },
      yaxis: { ...axis, title: { ...axis.title, text: plain(`${many && $("what").value === MEAN ? `mean ${name} over the tasks seen` : name}${lower}`) }, ...(share ? { range: [-0.02, 1.04] } : { autorange: true }) },
      shapes: ends.slice(0, -1).map(({ end }) => ({ type: "line", x0: end, x1: end, yref: "paper", y0: 0, y1: 1, line: { color: quiet, width: 1 }, opacity: 0.55, layer: "below" })),
      annotations: many ? [] : names(ends, quiet),
    };
  }

  taskTable(run) {
    const rows = run.tasks.map((task, k) => {
      const low = run.lows[k];
      const learned = low ? low[2] : null;
      const now = task.scores.at(-1);
      const drop = low && learned !== null ? (run.row.lower ? low[1] - learned : learned - low[1]) : null;
      return [swatched(task.name, colour(task), "solid"), number(now), number(learned), number(low?.[1]), low ? String(low[0]) : "–", number(drop)];
    });
    return filled(["task", "now", "when learned", `${worst(run.row)} since`, "at step", "lost at worst"], rows);
  }

  figures({ row, costs, left_out: left }) {
    const found = [[`${meanName(row)} so far`, number(row.acc)], [worstName(row), number(row.min_acc)], ["iterations", String(row.step ?? "–")]];
    if (row.of || row.tasks) found.push(["tasks learned", row.of ? `${row.tasks ?? 0} of ${row.of}` : String(row.tasks)]);
    const seconds = costs.map((cost) => cost.seconds_train).filter((value) => value !== null && value !== undefined);
    if (seconds.length) found.push(["training", time(seconds.reduce((a, b) => a + b, 0))]);
    if (left) found.push(["tasks not shown", String(left)]);
    return found;
  }

  runTable(runs) {
    const alike = same(runs, (row) => row.score) !== undefined;
    const value = (row, field) => (alike ? number(row[field]) : `${row.score} ${number(row[field])}`);
    const rows = runs.map(({ row }) => {
      const look = this.looks[row.name] ?? { colour: "#6b6b6b", dark: "#9b9b9b", dash: "solid" };
      return [swatched(row.name, colour(look), look.dash), row.state, `${row.tasks ?? 0}${row.of ? `/${row.of}` : ""}`, String(row.step ?? "–"), value(row, "acc"), value(row, "min_acc")];
    });
    return filled(["run", "state", "tasks", "step", same(runs, meanName) ?? "mean score", same(runs, worstName) ?? "worst since learned"], rows);
  }
}

// What all runs say alike, undefined where they do not.
function same(runs, said) {
  const all = new Set(runs.map((run) => said(run.row)));
  return all.size === 1 ? [...all][0] : undefined;
}

const lastStep = (run) => run.mean.steps.at(-1) ?? Math.max(0, ...run.tasks.map((task) => task.steps.at(-1) ?? 0));

const line = (curve, name, paint, dash) => ({
  type: "scatter", mode: curve.steps.length < 3 ? "lines+markers" : "lines", x: curve.steps, y: curve.scores,
  name: plain(short(name, 60)), line: { color: paint, width: 2, dash, simplify: false }, marker: { color: paint, size: 6 },
  hovertemplate: `%{y:.3f} at step %{x}<extra>${plain(short(name, 60))}</extra>`,
});
const level = (x, y, paint) => ({
  type: "scatter", mode: "lines", x, y: [y, y], line: { color: paint, width: 1.4, dash: "dot" }, hoverinfo: "skip",
});
const mark = (low, name, paint, row) => ({
  type: "scatter", mode: "markers", x: [low[0]], y: [low[1]], marker: { color: paint, size: 9, symbol: row.lower ? "triangle-up" : "triangle-down" },
  hovertemplate: `${worst(row)}: %{y:.3f} at step %{x}<extra>${plain(short(name, 60))}</extra>`,
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

// Names above the curves, where there is room for them.
function names(ends, quiet) {
  if (ends.length > 12) return [];
  return ends.map(({ first, end, name }) => ({
    x: (first + end) / 2, y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
    text: plain(short(name, Math.max(4, Math.floor(90 / ends.length)))), font: { size: 12, color: quiet },
  }));
}

function swatched(text, paint, dash) {
  const cell = document.createDocumentFragment();
  const swatch = element("span", "swatch");
  swatch.style.borderTopColor = paint;
  swatch.style.borderTopStyle = { dash: "dashed", dot: "dotted", dashdot: "dashed" }[dash] ?? "solid";
  cell.append(swatch, text);
  return cell;
}

function filled(heads, rows) {
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
  const said = element("dd");
  said.textContent = value;
  return [term, said];
}
