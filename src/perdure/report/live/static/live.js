// What changes on the disk comes in as events; this keeps the list and the curves as they are there.
import { Chart } from "./chart.js";
import { List, element, say } from "./list.js";

const $ = (id) => document.getElementById(id);
const MOST_RUNS = 24;
const MOST_POINTS = 6000; // of a curve that has grown: then it is fetched anew, thinned

let chosen = [];
let where = { id: "", rev: -1 };
let events = null;
const curves = new Map(); // name -> what /api/run said, grown since
const fetching = new Map(); // name -> whether it has changed again meanwhile
const chart = new Chart();
const list = new List({ open: (name) => choose([name]), toggle });

async function get(path) {
  const answer = await fetch(path, { cache: "no-cache" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

const asked = (names) => new URLSearchParams(names.map((name) => ["run", name])).toString();

function toggle(name) {
  choose(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name].slice(-MOST_RUNS));
}

function choose(names) {
  chosen = names;
  history.replaceState(null, "", names.length ? `#${asked(names)}` : location.pathname);
  for (const name of curves.keys()) if (!names.includes(name)) curves.delete(name);
  list.chosen = names;
  list.draw();
  show();
  listen();
}

function show() {
  chart.runs = chosen.map((name) => curves.get(name)).filter(Boolean);
  chart.soon();
}

async function fetchList() {
  const found = await get("/api/runs");
  where = { id: found.id, rev: found.rev };
  say($("store"), found.store);
  document.title = `${found.store} · perdure`;
  list.rows = new Map(found.runs.map((row) => [row.name, row]));
  studies(found.studies);
  list.draw();
  if (chosen.length) return;
  const first = list.found()[0];
  if (first) choose([first.name]);
}

async function fetchCurves(name) {
  if (fetching.has(name)) return fetching.set(name, true);
  fetching.set(name, false);
  try {
    const found = await get(`/api/run/${encodeURIComponent(name)}`);
    if (chosen.includes(name)) curves.set(name, found);
  } catch {
    const row = list.rows.get(name) ?? { name, state: "gone", problem: "", min_acc: null, acc: null, score: "accuracy", lower: false };
    if (chosen.includes(name)) curves.set(name, { row: { ...row, problem: row.problem || "it is not there any more" }, about: [], costs: [] });
  }
  const again = fetching.get(name);
  fetching.delete(name);
  if (again) return fetchCurves(name);
  show();
}

async function fetchLooks() {
  if (chosen.length > 1) chart.looks = await get(`/api/looks?${asked(chosen)}`).catch(() => chart.looks);
  show();
}

function listen() {
  events?.close();
  events = new EventSource(`/events?${asked(chosen)}`);
  const mine = events;
  const on = (kind, act) => mine.addEventListener(kind, (event) => mine === events && act(JSON.parse(event.data)));
  on("hello", (said) => {
    connection("live", "live");
    const same = said.id === where.id && said.rev === where.rev;
    if (!same) fetchList().catch(() => {});
    chosen.forEach(fetchCurves);
    fetchLooks();
  });
  on("rows", (said) => {
    where.rev = said.rev;
    for (const row of said.rows) take(row);
    for (const name of said.gone) gone(name);
    list.soon();
  });
  on("relist", () => relist());
  on("again", () => {
    relist();
    chosen.forEach(fetchCurves);
  });
  on("studies", (said) => studies(said.studies));
  on("points", (said) => grow(said) || fetchCurves(said.name));
  on("redraw", (said) => fetchCurves(said.name));
  mine.onerror = () => {
    if (mine !== events) return;
    connection("lost", "connection lost; trying again");
    // The browser tries again by itself, unless it was refused.
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => mine === events && listen(), 3000);
  };
}

let relisting;
function relist() {
  relisting ??= setTimeout(() => {
    relisting = undefined;
    fetchList().catch(() => {});
  }, 1500);
}

function take(row) {
  const have = list.rows.get(row.name);
  if (have && have.rev > row.rev) return;
  list.rows.set(row.name, row);
  const mine = curves.get(row.name);
  if (!mine) return;
  if (mine.row.state !== row.state) fetchCurves(row.name); // its costs are known now
  mine.row = row;
  chart.soon();
}

function gone(name) {
  list.rows.delete(name);
  if (chosen.includes(name)) fetchCurves(name);
}

// Whether the curves of a run are up to date with what was said.
function grow(said) {
  const mine = curves.get(said.name);
  if (!mine || fetching.has(said.name)) return false;
  if (mine.begun !== said.begun || mine.rows === undefined) return false;
  if (mine.rows >= said.rows) return true;
  if (mine.rows !== said.since) return false;
  for (const [k, more] of [...Object.entries(said.curves), ["mean", said.mean]]) {
    const curve = k === "mean" ? mine.mean : mine.tasks[k];
    curve.steps.push(...more.steps);
    curve.scores.push(...more.scores);
    if (curve.steps.length > MOST_POINTS) return false;
  }
  Object.assign(mine, { rows: said.rows, spans: said.spans, lows: said.lows });
  chart.soon();
  return true;
}

function studies(all) {
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
    const words = element("p");
    words.textContent = [`${study.done} of ${total} done`, ...parts.slice(1).filter((part) => study[part]).map((part) => `${study[part]} ${part}`)].join(", ");
    card.append(title, bar, words);
    return card;
  }));
}

function connection(state, text) {
  $("connection").dataset.state = state;
  say($("connection"), text);
}

$("clear").addEventListener("click", () => choose(chosen.slice(0, 1)));

// A browser has six connections for an address: a page in the background gives its own back.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return listen();
  events?.close();
  events = null;
  connection("waiting", "paused in the background");
});

chosen = new URLSearchParams(location.hash.slice(1)).getAll("run").slice(0, MOST_RUNS);
list.chosen = chosen;
addEventListener("hashchange", () => choose(new URLSearchParams(location.hash.slice(1)).getAll("run").slice(0, MOST_RUNS)));
listen();
