// The list of runs: filtered, ordered, and only as many on the page as somebody reads.

const PAGE = 200;
const RANK = { running: 0, failed: 1, interrupted: 2, finished: 3 };
const $ = (id) => document.getElementById(id);

export const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// A score is called by its own name; of one that is better lower, the highest is the worst.
export const worst = (row) => (row.lower ? "highest" : "lowest");
export const meanName = (row) => (row.score === "accuracy" ? "ACC" : `mean ${row.score}`);
export const worstName = (row) => (row.score === "accuracy" ? "min-ACC" : `${worst(row)} since learned`);

export const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

function matches(row, wanted) {
  for (const field of ["state", "strategy", "scenario"]) {
    if (wanted[field] && row[field] !== wanted[field]) return false;
  }
  if (!wanted.words.length) return true;
  const text = [row.name, row.scenario, row.strategy, row.model, row.setting, row.state].join(" ").toLowerCase();
  return wanted.words.every((word) => text.includes(word));
}

// Rows without a number come last, whichever way the others go.
const good = (row, field) => (row.lower ? -row[field] : row[field]);
const by = (field, sign) => (a, b) =>
  (a[field] === null) - (b[field] === null) || a.score.localeCompare(b.score) ||
  sign * (good(a, field) - good(b, field)) || a.name.localeCompare(b.name);

const ORDERS = {
  // Running ones by name: they change all the time, and the list should stand still.
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
    this.chosen = [];
    this.most = PAGE;
    this.items = new Map(); // name -> its element on the page
    this.calls = { open, toggle };
    for (const id of ["words", "state", "strategy", "scenario", "order"]) {
      $(id).addEventListener("input", () => {
        this.most = PAGE;
        this.draw();
      });
    }
    $("more").addEventListener("click", () => {
      this.most += PAGE;
      this.draw();
    });
  }

  // Several changes in a row are drawn once.
  soon() {
    this.timer ??= setTimeout(() => this.draw(), 150);
  }

  found() {
    const wanted = { words: $("words").value.toLowerCase().split(/\s+/).filter(Boolean) };
    for (const id of ["state", "strategy", "scenario"]) wanted[id] = $(id).value;
    return [...this.rows.values()].filter((row) => matches(row, wanted)).sort(ORDERS[$("order").value]);
  }

  draw() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.choices();
    const found = this.found();
    const shown = found.slice(0, this.most);
    const count = found.length === shown.length ? `${found.length}` : `first ${shown.length} of ${found.length}`;
    const total = this.rows.size === found.length ? "" : `, of ${this.rows.size} in all`;
    say($("count"), this.rows.size ? `${count} ${found.length === 1 ? "run" : "runs"}${total}` : "No runs here yet; they appear when they start.");
    $("more").hidden = found.length <= shown.length;
    this.place(shown);
  }

  place(shown) {
    const held = document.activeElement;
    const stay = new Set(shown.map((row) => row.name));
    for (const [name, item] of this.items) {
      if (!stay.has(name)) {
        item.remove();
        this.items.delete(name);
      }
    }
    let next = $("runs").firstElementChild;
    for (const row of shown) {
      let item = this.items.get(row.name);
      if (!item) this.items.set(row.name, (item = this.make(row.name)));
      this.fill(item, row);
      if (item === next) next = next.nextElementSibling;
      else $("runs").insertBefore(item, next);
    }
    if (held && held !== document.activeElement && held.isConnected) held.focus({ preventScroll: true });
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
    open.append(...["name", "acc", "meta", "low"].map((part) => element("span", part)));
    open.children[2].append(element("span", "state"), element("span"));
    open.addEventListener("click", () => this.calls.open(name));
    item.append(label, open);
    return item;
  }

  fill(item, row) {
    const chosen = this.chosen.includes(row.name);
    const [label, open] = item.children;
    const [name, acc, meta, low] = open.children;
    const far = row.setting ? [row.setting] : [];
    if (row.of || row.tasks) far.push(`${row.tasks ?? 0}${row.of ? `/${row.of}` : ""} tasks`);
    if (row.step !== null) far.push(`step ${row.step}`);
    item.classList.toggle("chosen", chosen);
    label.firstElementChild.checked = chosen;
    open.setAttribute("aria-current", chosen ? "true" : "false");
    open.title = row.problem || row.name;
    say(name, row.name);
    say(acc, row.acc === null ? "" : `${row.score === "accuracy" ? "" : `${short(row.score, 16)} `}${number(row.acc)}`);
    say(low, row.min_acc === null ? "" : `${row.lower ? "max" : "min"} ${number(row.min_acc)}`);
    meta.firstElementChild.dataset.state = row.state;
    say(meta.firstElementChild, row.state);
    say(meta.lastElementChild, [far.length ? ` · ${far.join(" · ")}` : "", row.problem ? ` · ${row.problem}` : ""].join(""));
  }

  // What can be chosen is what there is.
  choices() {
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
    say($("totals"), parts.join(", "));
  }
}

export function element(tag, kind) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  return made;
}

// Untouched where nothing changes: screen readers speak of what was written.
export function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

export function options(select, values, label = (value) => value, first = "any") {
  const wanted = [["", first], ...values.map((value) => [value, label(value)])].filter(([, text]) => text !== null);
  const now = select.value;
  if (now && !values.includes(now)) wanted.push([now, now]);
  const made = wanted.map(([value, text]) => {
    const option = element("option");
    option.value = value;
    option.textContent = text;
    return option;
  });
  const same = made.length === select.options.length &&
    made.every((option, k) => option.value === select.options[k].value && option.text === select.options[k].text);
  if (same) return;
  select.replaceChildren(...made);
  select.value = now;
}
