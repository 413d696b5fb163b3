// The list of runs: filtered, ordered, and shown page by page.
import { differingOptions, optionsText, shorten } from "./groups.js";

export { shorten };

const PAGE = 200;
const RANK = { running: 0, failed: 1, interrupted: 2, finished: 3 };
const $ = (id) => document.getElementById(id);

// Scores have their own names; if lower is better, the highest score is the worst.
export const worst = (row) => (row.lower ? "highest" : "lowest");
export const meanName = (row) => (row.score === "accuracy" ? "ACC" : `mean ${row.score}`);
export const worstName = (row) => (row.score === "accuracy" ? "min-ACC" : `${worst(row)} since learned`);

export const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

function matches(row, wanted, options) {
  for (const field of ["state", "strategy", "scenario"]) {
    if (wanted[field] && row[field] !== wanted[field]) return false;
  }
  if (!wanted.words.length) return true;
  const text = [row.name, row.scenario, row.strategy, row.model, row.setting, row.state, options(row), row.alarm].join(" ").toLowerCase();
  return wanted.words.every((word) => text.includes(word));
}

// Rows without a number come last in either order.
const quality = (row, field) => (row.lower ? -row[field] : row[field]);
const by = (field, sign) => (a, b) =>
  (a[field] === null) - (b[field] === null) || a.score.localeCompare(b.score) ||
  sign * (quality(a, field) - quality(b, field)) || a.name.localeCompare(b.name);

const ORDERS = {
  // Running ones by name: they change all the time, and the list should not move.
  recent: (a, b) =>
    (a.state !== "running") - (b.state !== "running") ||
    (a.state === "running" ? 0 : b.changed - a.changed) ||
    (a.name < b.name ? -1 : 1),
  name: (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  acc: by("acc", -1),
  min_acc: by("min_acc", 1),
};

export class List {
  constructor({ open, toggle }) {
    this.rows = new Map();
    this.selected = [];
    this.limit = PAGE;
    this.items = new Map(); // name -> its element
    this.calls = { open, toggle };
    this.differing = new Map(); // the options in which runs of one strategy differ
    this.groups = "";
    for (const id of ["words", "state", "strategy", "scenario", "order"]) {
      $(id).addEventListener("input", () => {
        this.limit = PAGE;
        this.draw();
      });
    }
    $("more").addEventListener("click", () => {
      this.limit += PAGE;
      this.draw();
    });
  }

  // Draws once after several changes in a row.
  soon() {
    this.timer ??= setTimeout(() => this.draw(), 150);
  }

  matching() {
    const wanted = { words: $("words").value.toLowerCase().split(/\s+/).filter(Boolean) };
    for (const id of ["state", "strategy", "scenario"]) wanted[id] = $(id).value;
    return [...this.rows.values()].filter((row) => matches(row, wanted, this.options)).sort(ORDERS[$("order").value]);
  }

  draw() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.fillFilters();
    this.findOptions();
    const rows = this.matching();
    const visible = rows.slice(0, this.limit);
    const count = rows.length === visible.length ? `${rows.length}` : `first ${visible.length} of ${rows.length}`;
    const total = this.rows.size === rows.length ? "" : `, of ${this.rows.size} in total`;
    setText($("count"), this.rows.size ? `${count} ${rows.length === 1 ? "run" : "runs"}${total}` : "No runs yet; they appear here when they start.");
    $("more").hidden = rows.length <= visible.length;
    this.place(visible);
  }

  options = (row) => optionsText(row, this.differing);

  // Looks for what differs only if there are other methods than before.
  findOptions() {
    const groups = [...new Set([...this.rows.values()].map((row) => row.group))].join(" ");
    if (groups === this.groups) return;
    this.groups = groups;
    this.differing = differingOptions(this.rows.values());
    this.seeds = new Set([...this.rows.values()].map((row) => row.seed)).size > 1;
  }

  place(visible) {
    const focused = document.activeElement;
    const names = new Set(visible.map((row) => row.name));
    for (const [name, item] of this.items) {
      if (!names.has(name)) {
        item.remove();
        this.items.delete(name);
      }
    }
    let next = $("runs").firstElementChild;
    for (const row of visible) {
      let item = this.items.get(row.name);
      if (!item) this.items.set(row.name, (item = this.make(row.name)));
      this.fill(item, row);
      if (item === next) next = next.nextElementSibling;
      else $("runs").insertBefore(item, next);
    }
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  }

  make(name) {
    const item = element("li", "run");
    const label = element("label");
    const box = element("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", `compare ${name}`);
    box.addEventListener("change", () => this.calls.toggle(name));
    label.append(box);
    const open = element("button");
    open.type = "button";
    open.append(...["name", "acc", "options", "meta", "low"].map((part) => element("span", part)));
    open.children[3].append(element("span", "state"), element("span"));
    open.addEventListener("click", () => this.calls.open(name));
    item.append(label, open);
    return item;
  }

  fill(item, row) {
    const selected = this.selected.includes(row.name);
    const [label, open] = item.children;
    const [name, acc, options, meta, low] = open.children;
    const facts = []; // the last ones are cut where there is no room
    if (row.of || row.tasks) facts.push(`${row.tasks ?? 0}${row.of ? `/${row.of}` : ""} tasks`);
    if (row.step !== null && row.state !== "finished") facts.push(`step ${row.step}`);
    if (row.seed !== null && this.seeds) facts.push(`seed ${row.seed}`);
    if (row.setting) facts.push(row.setting);
    item.classList.toggle("selected", selected);
    label.firstElementChild.checked = selected;
    open.setAttribute("aria-current", selected ? "true" : "false");
    open.title = [row.name, this.options(row), row.alarm, row.problem].filter(Boolean).join("\n");
    setText(options, this.options(row));
    options.hidden = !options.textContent;
    setText(name, row.name);
    setText(acc, row.acc === null ? "" : `${row.score === "accuracy" ? "" : `${shorten(row.score, 16)} `}${number(row.acc)}`);
    setText(low, row.min_acc === null ? "" : `${row.lower ? "max" : "min"} ${number(row.min_acc)}`);
    meta.firstElementChild.dataset.state = row.state;
    setText(meta.firstElementChild, row.state);
    setText(meta.lastElementChild, [row.alarm ? "alarm" : "", row.problem, ...facts].filter(Boolean).map((fact) => ` · ${fact}`).join(""));
  }

  // The filters offer the values that occur.
  fillFilters() {
    const states = {};
    const values = { strategy: new Set(), scenario: new Set() };
    for (const row of this.rows.values()) {
      states[row.state] = (states[row.state] ?? 0) + 1;
      for (const field in values) if (row[field]) values[field].add(row[field]);
    }
    const known = Object.keys(RANK).filter((state) => states[state] || $("state").value === state);
    options($("state"), known, (state) => `${state} (${states[state] ?? 0})`);
    for (const field in values) options($(field), [...values[field]].sort());
    const parts = known.filter((state) => states[state]).map((state) => `${states[state]} ${state}`);
    const alarms = [...this.rows.values()].filter((row) => row.alarm).length;
    if (alarms) parts.push(`${alarms} with an alarm`);
    setText($("totals"), parts.join(", "));
  }
}

export function element(tag, kind) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  return node;
}

// Writes only changes: screen readers announce what is written.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function options(select, values, label = (value) => value, first = "any") {
  const wanted = [["", first], ...values.map((value) => [value, label(value)])].filter(([, text]) => text !== null);
  const now = select.value;
  if (now && !values.includes(now)) wanted.push([now, now]);
  const choices = wanted.map(([value, text]) => {
    const option = element("option");
    option.value = value;
    option.textContent = text;
    return option;
  });
  const same = choices.length === select.options.length &&
    choices.every((option, k) => option.value === select.options[k].value && option.text === select.options[k].text);
  if (same) return;
  select.replaceChildren(...choices);
  select.value = now;
}
