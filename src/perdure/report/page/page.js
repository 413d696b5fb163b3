// Draws the data of each part of the page: curves and criteria.
const short = (text) => (text.length <= 40 ? text : `${text.slice(0, 26)}…${text.slice(-13)}`);
const byId = (id) => document.getElementById(id);
const RADII = [0.2, 0.4, 0.6, 0.8, 1];

// One curve: band, single runs, mean, worst score, task ends.
function makeSeries(data, task, name, style, runs) {
  const value = (y) => (data.percent ? `${(100 * y).toFixed(1)}%` : y.toFixed(3));
  const common = { name: short(name), group: name, style };
  const { x, y, sd } = task;
  const series = [];
  if (sd.length) {
    const [low, high] = data.range ?? [-Infinity, Infinity];
    series.push({
      ...common,
      kind: "band",
      x,
      high: y.map((mean, k) => Math.min(mean + sd[k], high)),
      low: y.map((mean, k) => Math.max(mean - sd[k], low)),
    });
  }
  const solid = { ...style, dash: "solid" };
  for (const [steps, scores] of runs)
    series.push({
      ...common,
      kind: "line",
      x: steps,
      y: scores,
      style: solid,
      width: 0.8,
      faint: true,
    });
  series.push({
    ...common,
    kind: "line",
    x,
    y,
    width: 1.8,
    entry: true,
    describe: (k) => `step ${x[k]}: ${value(y[k])}`,
  });
  if (task.low !== null && x.length)
    series.push({
      ...common,
      kind: "line",
      x: [x[0], x.at(-1)],
      y: [task.low, task.low],
      style: { ...style, dash: "dashed" },
      width: 1,
    });
  const [steps, scores] = [0, 1].map((part) => task.ends.map((end) => end[part]));
  if (steps.length)
    series.push({
      ...common,
      kind: "marks",
      symbol: "diamond",
      x: steps,
      y: scores,
      describe: (k) => `task end, step ${steps[k]}: ${value(scores[k])}`,
    });
  return series;
}

class Curves {
  constructor(data, at) {
    this.data = data;
    this.plot = new Plot(byId(`curves-plot${at}`));
    [this.view, this.zoom, this.seeds] = ["view", "zoom", "seeds"].map((id) => byId(id + at));
    this.fillViews();
    this.fillZooms();
    this.view.addEventListener("change", () => {
      this.fillZooms();
      this.draw();
    });
    for (const control of [this.zoom, this.seeds])
      control.addEventListener("change", () => this.draw());
    this.draw();
  }

  fillViews() {
    const { methods, tasks } = this.data;
    methods.forEach((method, k) =>
      this.view.add(new Option(`${short(method.name)}: all tasks`, `method ${k}`)),
    );
    tasks.forEach((task, k) => {
      const name = /^task /.test(task) ? task : `task ${task}`;
      this.view.add(new Option(`${short(name)}: all methods`, `task ${k}`));
    });
    if (methods.length > 1) this.view.value = "task 0";
    this.seeds.parentElement.hidden = !methods.some((method) => method.seeds.length);
  }

  // What is shown: one task of all methods, or all tasks of one method.
  get chosen() {
    const [kind, index] = this.view.value.split(" ");
    const task = kind === "task" ? Number(index) : null;
    return { task, methods: task === null ? [this.data.methods[index]] : this.data.methods };
  }

  get switches() {
    return [...new Set(this.chosen.methods.flatMap((method) => method.switches))].sort(
      (a, b) => a - b,
    );
  }

  fillZooms() {
    const last = Math.max(
      ...this.chosen.methods.flatMap((method) => method.tasks.flatMap((task) => task.x.slice(-1))),
    );
    const wide = Math.max(10, Math.round(last / 50));
    this.zoom.replaceChildren(new Option("the whole training", ""));
    this.switches.forEach((step, k) =>
      this.zoom.add(
        new Option(
          `around switch ${k + 1} (step ${step})`,
          `${step - wide / 2} ${step + 2 * wide}`,
        ),
      ),
    );
  }

  series() {
    const { task, methods } = this.chosen;
    return methods.flatMap((method) => {
      const numbers =
        task === null ? [...method.tasks.keys()] : [task].filter((k) => k < method.tasks.length);
      return numbers.flatMap((k) => {
        const runs = this.seeds.checked
          ? method.seeds.filter((seed) => k < seed.length).map((seed) => seed[k])
          : [];
        const [name, style] =
          task === null ? [method.names[k], this.data.styles[k]] : [method.name, method.style];
        return makeSeries(this.data, method.tasks[k], name, style, runs);
      });
    });
  }

  draw() {
    const { score, percent, range } = this.data;
    const margin = range && 0.03 * (range[1] - range[0]);
    this.plot.draw({
      key: `${this.view.value}, ${this.zoom.value}`,
      canFit: true,
      series: this.series(),
      boundaries: this.switches,
      x: {
        title: "training iterations",
        range: this.zoom.value ? this.zoom.value.split(" ").map(Number) : undefined,
      },
      y: {
        title: short(score),
        percent,
        range: range ? [range[0] - margin, range[1] + margin] : undefined,
      },
    });
  }
}

// Circles, and a spoke and a name per criterion; the line of a method has a corner on each spoke.
function drawCriteria({ names, methods }, at) {
  const turn = (part, k) => part((2 * Math.PI * k) / names.length);
  const circle = Array.from({ length: 120 }, (_, k) => (2 * Math.PI * k) / 120);
  const closed = [...names.keys(), 0];
  const along = (part, values) =>
    closed.map((k) => (values[k] === null ? null : turn(part, k) * values[k]));
  const side = (part, k) => Math.sign(Math.round(9 * turn(part, k)));
  new Plot(byId(`criteria-plot${at}`)).draw({
    square: true,
    x: { range: [-1.04, 1.04] },
    y: { range: [-1.04, 1.04] },
    series: methods.map(({ name, style, values }, number) => ({
      name: short(name),
      group: number,
      style,
      kind: "line",
      symbol: "circle",
      entry: true,
      x: along(Math.cos, values),
      y: along(Math.sin, values),
      describe: (k) => `${names[closed[k]]}: ${values[closed[k]].toFixed(3)}`,
    })),
    guides: [
      ...names.map((_, k) => ({
        name: "spoke",
        x: [0, turn(Math.cos, k)],
        y: [0, turn(Math.sin, k)],
      })),
      ...RADII.map((r) => ({
        name: r === 1 ? "outer circle" : "circle",
        x: circle.map((a) => r * Math.cos(a)),
        y: circle.map((a) => r * Math.sin(a)),
      })),
    ],
    labels: [
      ...RADII.map((r) => ({ x: r, y: 0, text: String(r), row: -1, name: "radius" })),
      ...names.map((text, k) => ({
        x: turn(Math.cos, k),
        y: turn(Math.sin, k),
        text,
        side: side(Math.cos, k),
        row: side(Math.sin, k),
      })),
    ],
  });
}

// The data are compressed in the page.
function decompress(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(
    new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")),
  ).text();
}

async function drawAll() {
  const parts = [...document.querySelectorAll(".plot-data")];
  let texts;
  try {
    texts = await Promise.all(parts.map((part) => decompress(part.textContent)));
  } catch {
    for (const plot of document.querySelectorAll(".plot"))
      plot.textContent =
        "This browser cannot draw the curves (it lacks DecompressionStream, of 2023); the tables contain the numbers.";
    return;
  }
  parts.forEach((part, k) => {
    const at = part.id.slice("plot-data".length); // the ids of a part end with the same number
    const data = JSON.parse(texts[k]);
    if (data.methods.length) new Curves(data, at);
    if (data.criteria) drawCriteria(data.criteria, at);
  });
  const plots = () =>
    [...document.querySelectorAll(".plot")].map((host) => host.plot).filter(Boolean);
  // Paper is narrower than most screens.
  addEventListener("beforeprint", () => plots().forEach((plot) => plot.resize(680, 360)));
  addEventListener("afterprint", () => plots().forEach((plot) => plot.resize()));
  document.documentElement.dataset.drawn = "yes";
}

drawAll();
