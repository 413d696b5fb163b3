// Keeps the list and the curves up to date with the events that the server sends.
import { Chart } from "./chart.js";
import { groupRuns } from "./groups.js";
import { List, element, setText } from "./list.js";
import "./theme.js";

const $ = (id) => document.getElementById(id);
const MAX_RUNS = 24; // that are drawn
const MAX_TICKED = 200;
const narrow = matchMedia("(max-width: 860px)");
const MAX_POINTS = 6000; // a curve that has grown beyond this is fetched again, with fewer points

let selected = [];
let known = { id: "", rev: -1 }; // server and revision of the list
let events = null;
const curves = new Map(); // name -> response of /api/run, extended since
const fetching = new Map(); // name -> whether it has changed again in the meantime
const chart = new Chart();
const list = new List({ open, toggle });

async function get(path) {
  const response = await fetch(path, { cache: "no-cache" });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

const query = (names) => new URLSearchParams(names.map((name) => ["run", name])).toString();

const rowsOf = (names) => names.map((name) => ({ row: list.rows.get(name) ?? { name } }));

// The ticked runs that are drawn: no more than the limit, and all seeds of a method or none.
function drawn() {
  if (selected.length <= MAX_RUNS) return selected;
  const names = [];
  for (const { runs } of groupRuns(rowsOf(selected))) {
    if (names.length && names.length + runs.length > MAX_RUNS) break;
    names.push(...runs.map(({ row }) => row.name));
  }
  return names.slice(0, MAX_RUNS);
}

function toggle(name) {
  select(selected.includes(name) ? selected.filter((other) => other !== name) : [...selected, name]);
}

// On a phone the curves are below the list.
function open(name) {
  select([name]);
  if (narrow.matches) $("shown").scrollIntoView();
}

function select(names) {
  selected = names.slice(0, MAX_TICKED);
  history.replaceState(null, "", selected.length ? `#${query(selected)}` : location.pathname);
  for (const name of curves.keys()) if (!drawn().includes(name)) curves.delete(name);
  list.selected = selected;
  list.draw();
  show();
  listen();
}

function show() {
  chart.runs = drawn().map((name) => curves.get(name)).filter(Boolean);
  chart.soon();
  const count = drawn().length;
  $("limit").hidden = count === selected.length;
  setText($("limit"), count < selected.length ? `${count} of the ${selected.length} ticked runs are drawn: at most ${MAX_RUNS}, and all seeds of a method or none. Untick runs in the list to choose which.` : "");
  const seeds = otherSeeds();
  $("seeds").hidden = !seeds.length;
  setText($("seeds"), `Add ${seeds.length} other seed${seeds.length === 1 ? "" : "s"}`);
}

// Runs that differ from a ticked one in nothing but the seed.
function otherSeeds() {
  const taken = new Map(); // method -> its seeds that are ticked
  for (const name of selected) {
    const row = list.rows.get(name);
    if (row?.group) taken.set(row.group, (taken.get(row.group) ?? new Set()).add(row.seed));
  }
  return [...list.rows.values()].filter((row) => {
    const seeds = taken.get(row.group);
    return seeds && !seeds.has(row.seed) && seeds.add(row.seed);
  }).map((row) => row.name);
}

async function fetchList() {
  const all = await get("/api/runs");
  known = { id: all.id, rev: all.rev };
  setText($("store"), all.store);
  document.title = `${all.store} · perdure`;
  list.rows = new Map(all.runs.map((row) => [row.name, row]));
  showStudies(all.studies);
  list.draw();
  if (selected.length > MAX_RUNS) return select(selected); // which belong together is known now
  fetchStyles();
  if (selected.length) return;
  const first = list.matching()[0];
  if (first) select([first.name]);
}

async function fetchCurves(name) {
  if (fetching.has(name)) return fetching.set(name, true);
  fetching.set(name, false);
  try {
    const run = await get(`/api/run/${encodeURIComponent(name)}`);
    if (drawn().includes(name)) curves.set(name, run);
  } catch {
    const row = list.rows.get(name) ?? { name, state: "gone", problem: "", min_acc: null, acc: null, score: "accuracy", lower: false, alarm: "", group: "", options: {} };
    if (drawn().includes(name)) curves.set(name, { row: { ...row, problem: row.problem || "this run no longer exists" }, details: [], costs: [] });
  }
  const again = fetching.get(name);
  fetching.delete(name);
  if (again) return fetchCurves(name);
  show();
}

async function fetchStyles() {
  const leaders = groupRuns(rowsOf(drawn())).map((group) => group.first);
  if (leaders.length) chart.styles = await get(`/api/styles?${query(leaders)}`).catch(() => chart.styles);
  show();
}

function listen() {
  events?.close();
  events = new EventSource(`/events?${query(drawn())}`);
  const own = events;
  const on = (kind, act) => own.addEventListener(kind, (event) => own === events && act(JSON.parse(event.data)));
  on("hello", ({ id, rev }) => {
    showConnection("live", "live");
    const same = id === known.id && rev === known.rev;
    if (!same) fetchList().catch(() => {});
    drawn().forEach(fetchCurves);
    fetchStyles();
  });
  on("rows", ({ rows, gone, rev }) => {
    known.rev = rev;
    rows.forEach(updateRow);
    gone.forEach(removeRow);
    list.soon();
  });
  on("relist", relist);
  on("again", () => {
    relist();
    drawn().forEach(fetchCurves);
  });
  on("studies", ({ studies }) => showStudies(studies));
  on("points", ({ name, points }) => addPoints(name, points) || fetchCurves(name));
  on("redraw", ({ name }) => fetchCurves(name));
  own.onerror = () => {
    if (own !== events) return;
    showConnection("lost", "connection lost; reconnecting");
    // The browser reconnects by itself, unless it was refused.
    if (own.readyState === EventSource.CLOSED) retry(own);
  };
}

// A restarted server may have another token, which only the address that it printed contains.
async function retry(own) {
  const response = await fetch("/api/runs", { method: "HEAD" }).catch(() => null);
  if (response?.status === 401) return showConnection("lost", "the token has changed; open the address that perdure watch printed");
  setTimeout(() => own === events && listen(), 3000);
}

let relisting;
function relist() {
  relisting ??= setTimeout(() => {
    relisting = undefined;
    fetchList().catch(() => {});
  }, 1500);
}

function updateRow(row) {
  const old = list.rows.get(row.name);
  if (old && old.rev > row.rev) return;
  list.rows.set(row.name, row);
  const run = curves.get(row.name);
  if (!run) return;
  if (run.row.state !== row.state) fetchCurves(row.name); // its costs are known now
  run.row = row;
  chart.soon();
}

function removeRow(name) {
  list.rows.delete(name);
  if (drawn().includes(name)) fetchCurves(name);
}

// Adds points to the curves of a run; returns whether the curves are then up to date.
function addPoints(name, points) {
  const run = curves.get(name);
  if (!run || fetching.has(name)) return false;
  if (run.restarts !== points.restarts || run.rows === undefined) return false;
  if (run.rows >= points.rows) return true;
  if (run.rows !== points.since) return false;
  for (const [k, more] of [...Object.entries(points.curves), ["mean", points.mean]]) {
    const curve = k === "mean" ? run.mean : run.tasks[k];
    curve.steps.push(...more.steps);
    curve.scores.push(...more.scores);
    if (curve.steps.length > MAX_POINTS) return false;
  }
  Object.assign(run, { rows: points.rows, spans: points.spans, worst: points.worst });
  chart.soon();
  return true;
}

function showStudies(all) {
  $("studies").hidden = !all.length;
  $("studies").replaceChildren(...all.map((study) => {
    const card = element("article", "study");
    const title = element("h2");
    title.textContent = study.name;
    const parts = ["done", "running", "failed", "waiting"];
    const total = parts.reduce((sum, part) => sum + study[part], 0);
    const bar = element("div", "bar");
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", `${study.done} of ${total} runs done`);
    for (const part of parts) {
      if (!study[part]) continue;
      const piece = element("i", part);
      piece.style.flexGrow = study[part];
      bar.append(piece);
    }
    const counts = element("p");
    counts.textContent = [`${study.done} of ${total} done`, ...parts.slice(1).filter((part) => study[part]).map((part) => `${study[part]} ${part}`)].join(", ");
    card.append(title, bar, counts);
    return card;
  }));
}

function showConnection(state, text) {
  $("connection").dataset.state = state;
  setText($("connection"), text);
}

$("clear").addEventListener("click", () => select(selected.slice(0, 1)));
$("seeds").addEventListener("click", () => select([...selected, ...otherSeeds()]));
$("all").addEventListener("click", () => select(list.matching().map((row) => row.name)));
$("filters").open = !narrow.matches;

// A browser has six connections per server: a page in the background gives its own back.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return listen();
  events?.close();
  events = null;
  showConnection("waiting", "paused in the background");
});

selected = new URLSearchParams(location.hash.slice(1)).getAll("run").slice(0, MAX_TICKED);
list.selected = selected;
addEventListener("hashchange", () => select(new URLSearchParams(location.hash.slice(1)).getAll("run").slice(0, MAX_TICKED)));
listen();
