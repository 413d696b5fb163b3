"use strict";
// Plots the data of each part of the page. Names come from files, and plotly interprets some markup
// in text: "<" and "&" are escaped, and formulas are switched off.
function draw_part(data, at) {
  const short = (text) => (text.length <= 40 ? text : `${text.slice(0, 26)}…${text.slice(-13)}`);
  const plain = (text) => short(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paint = (style) => (dark.matches ? style.dark : style.colour);
  const settings = { responsive: true, displaylogo: false, displayModeBar: false, typesetMath: false };
  const axes = () => {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    return { ink, line };
  };

  function layout(more) {
    const { ink, line } = axes();
    const axis = { gridcolor: line, linecolor: line, zeroline: false, automargin: true };
    return Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 13, color: ink },
      margin: { l: 50, r: 10, t: 30, b: 40 }, hovermode: "closest",
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      xaxis: Object.assign({ title: { text: "training iterations" } }, axis),
      yaxis: Object.assign({ title: { text: plain(data.score) } }, data.percent ? { tickformat: ".0%" } : {}, axis),
    }, more);
  }

  // Makes room for a legend of several lines, so that the plot itself keeps its height.
  function fit(id, names) {
    const plot = document.getElementById(id + at);
    const wide = 60 + 7.5 * Math.max(...names.map((name) => name.length));
    const lines = Math.ceil(names.length / Math.max(1, Math.floor(plot.clientWidth / wide)));
    plot.style.height = `calc(var(--height) + ${19 * lines}px)`;
  }

  function transparent(colour, alpha) {
    const part = (k) => parseInt(colour.slice(k, k + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},${alpha})`;
  }

  // One curve: band, single runs, mean, worst score, task ends.
  function traces(task, name, colour, dash, seeds) {
    const legendgroup = `: ${name}`; // plotly stores groups as properties, so a name must not be __proto__
    const group = { legendgroup, showlegend: false, hoverinfo: "skip", mode: "lines" };
    const lines = [];
    if (task.sd.length) {
      const [low, high] = data.range || [-Infinity, Infinity];
      const up = task.y.map((y, k) => Math.min(y + task.sd[k], high));
      const down = task.y.map((y, k) => Math.max(y - task.sd[k], low));
      lines.push(Object.assign({}, group, {
        x: task.x.concat(task.x.slice().reverse()), y: up.concat(down.slice().reverse()),
        fill: "toself", fillcolor: transparent(colour, 0.18), line: { width: 0 },
      }));
    }
    for (const [x, y] of seeds)
      lines.push(Object.assign({}, group, { x, y, line: { color: transparent(colour, 0.45), width: 0.8 } }));
    lines.push({
      x: task.x, y: task.y, mode: "lines", name: plain(name), legendgroup,
      line: { color: colour, width: 1.8, dash }, hovertemplate: "step %{x}: %{y:" + (data.percent ? ".1%" : ".3f") + "}",
    });
    if (task.low !== null && task.x.length)
      lines.push(Object.assign({}, group, {
        x: [task.x[0], task.x[task.x.length - 1]], y: [task.low, task.low],
        line: { color: colour, width: 1, dash: "dash" },
      }));
    if (task.ends.length)
      lines.push(Object.assign({}, group, {
        x: task.ends.map((end) => end[0]), y: task.ends.map((end) => end[1]), mode: "markers",
        marker: { symbol: "diamond", size: 9, color: colour, line: { width: 1, color: axes().ink } },
        hoverinfo: "x+y",
      }));
    return lines;
  }

  function draw_curves() {
    const [kind, index] = view.value.split(" ");
    const methods = kind === "task" ? data.methods : [data.methods[index]];
    const lines = [];
    for (const method of methods) {
      const indices = kind === "task" ? [Number(index)] : method.tasks.keys();
      for (const k of indices) {
        if (k >= method.tasks.length) continue;
        const runs = seeds.checked ? method.seeds.filter((s) => k < s.length).map((s) => s[k]) : [];
        const style = kind === "task" ? method.style : data.styles[k];
        const name = kind === "task" ? method.name : method.names[k];
        lines.push(...traces(method.tasks[k], name, paint(style), style.dash, runs));
      }
    }
    const switches = [...new Set(methods.flatMap((method) => method.switches))];
    const shapes = switches.map((x) => ({
      type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1,
      line: { color: axes().ink, width: 1, dash: "dot" }, opacity: 0.5,
    }));
    const all = layout({ shapes });
    if (data.range) {
      const [low, high] = data.range;
      all.yaxis.range = [low - 0.03 * (high - low), high + 0.03 * (high - low)];
    }
    if (zoom.value) {
      const [from, to] = zoom.value.split(" ").map(Number);
      all.xaxis.range = [from, to];
    }
    fit("curves-plot", lines.filter((line) => line.name).map((line) => line.name));
    Plotly.react(`curves-plot${at}`, lines, all, settings);
  }

  function fill_zoom() {
    const [kind, index] = view.value.split(" ");
    const methods = kind === "task" ? data.methods : [data.methods[index]];
    const switches = [...new Set(methods.flatMap((method) => method.switches))].sort((a, b) => a - b);
    const last = Math.max(...methods.flatMap((m) => m.tasks.flatMap((t) => t.x.slice(-1))));
    const wide = Math.max(10, Math.round(last / 50));
    zoom.replaceChildren(new Option("the whole training", ""));
    switches.forEach((step, k) =>
      zoom.add(new Option(`around switch ${k + 1} (step ${step})`, `${step - wide / 2} ${step + 2 * wide}`)));
  }

  function draw_criteria() {
    const { names, methods } = data.criteria;
    const closed = [...names.keys(), 0];
    const [across, up] = [Math.cos, Math.sin].map((part) => closed.map((k) => part((2 * Math.PI * k) / names.length)));
    const at_radius = (directions, radii) => directions.map((direction, k) => radii[closed[k]] === null ? null : direction * radii[closed[k]]);
    const lines = methods.map((method) => ({
      name: plain(method.name), mode: "lines+markers", x: at_radius(across, method.values), y: at_radius(up, method.values),
      customdata: closed.map((k) => [names[k], method.values[k]]), hovertemplate: "%{customdata[0]}: %{customdata[1]:.3f}",
      line: { color: paint(method.style), dash: method.style.dash },
    }));
    const axis = { visible: false, range: [-1.04, 1.04], constrain: "domain" };
    fit("criteria-plot", methods.map((method) => short(method.name)));
    Plotly.react(`criteria-plot${at}`, lines, layout({
      legend: { orientation: "h", x: 0, y: -0.12, yanchor: "top" }, xaxis: axis, yaxis: { ...axis, scaleanchor: "x" },
      ...polar_grid(names, across, up),
    }), settings);
  }

  // Circles, and a spoke and a name per criterion: the bundle of plotly in the page has no polar axes.
  function polar_grid(names, across, up) {
    const { ink, line } = axes();
    const radii = [0.2, 0.4, 0.6, 0.8, 1];
    const label = { showarrow: false, borderpad: 5 };
    return {
      shapes: [
        ...radii.map((r) => ({ type: "circle", layer: "below", x0: -r, x1: r, y0: -r, y1: r, opacity: r === 1 ? 0.7 : 1, line: { color: r === 1 ? ink : line, width: 1 } })),
        ...names.map((_, k) => ({ type: "line", layer: "below", x0: 0, y0: 0, x1: across[k], y1: up[k], line: { color: line, width: 1 } })),
      ],
      annotations: [
        ...radii.map((r) => ({ ...label, x: r, y: 0, yanchor: "top", text: String(r), font: { size: 11 } })),
        ...names.map((text, k) => ({
          ...label, x: across[k], y: up[k], text, xanchor: ["right", "center", "left"][1 + Math.sign(Math.round(across[k] * 9))],
          yanchor: ["top", "middle", "bottom"][1 + Math.sign(Math.round(up[k] * 9))],
        })),
      ],
    };
  }

  const view = document.getElementById("view" + at);
  const zoom = document.getElementById("zoom" + at);
  const seeds = document.getElementById("seeds" + at);
  const all = () => {
    if (data.methods.length) draw_curves();
    if (data.criteria) setTimeout(draw_criteria);
  };
  if (data.methods.length) {
    data.methods.forEach((method, k) => view.add(new Option(`${short(method.name)}: all tasks`, `method ${k}`)));
    data.tasks.forEach((task, k) => {
      const name = /^task /.test(task) ? task : `task ${task}`;
      view.add(new Option(`${short(name)}: all methods`, `task ${k}`));
    });
    if (data.methods.length > 1) view.value = "task 0";
    seeds.parentElement.hidden = !data.methods.some((method) => method.seeds.length);
    fill_zoom();
    view.addEventListener("change", () => { fill_zoom(); draw_curves(); });
    zoom.addEventListener("change", draw_curves);
    seeds.addEventListener("change", draw_curves);
  }
  dark.addEventListener("change", all);
  all();
}

// Plotly and the data are compressed in the page.
function decompress(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

(async function () {
  const plotly = document.getElementById("plotly").textContent;
  // Paper is narrower than most screens, and plots do not shrink by themselves.
  const plots = () => [...document.querySelectorAll(".plot.js-plotly-plot")];
  window.addEventListener("beforeprint", () =>
    plots().forEach((plot) => Plotly.relayout(plot, { width: 680, height: 360 })));
  window.addEventListener("afterprint", () =>
    plots().forEach((plot) => Plotly.relayout(plot, { width: null, height: null, autosize: true })));
  const parts = plotly ? [...document.querySelectorAll(".plot-data")] : [];
  const script = document.createElement("script");
  let data;
  try {
    if (plotly) script.textContent = await decompress(plotly);
    data = await Promise.all(parts.map((part) => decompress(part.textContent)));
  } catch {
    for (const plot of document.querySelectorAll(".plot"))
      plot.textContent = "This browser cannot draw the curves (it lacks DecompressionStream, of 2023); the tables contain the numbers.";
    return;
  }
  document.head.append(script); // the policy of the page allows exactly this one
  // The ids of a part end with the same number as that of its data.
  parts.forEach((part, k) => draw_part(JSON.parse(data[k]), part.id.slice("plot-data".length)));
  document.documentElement.dataset.drawn = "yes";
})();
