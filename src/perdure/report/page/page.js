"use strict";
// Draws what stands in #drawn. Names come from files: plotly reads a little markup, so "<" and "&"
// are taken out of its hands, and formulas, which it is told not to.
(function () {
  const drawn = JSON.parse(document.getElementById("drawn").textContent);
  const short = (text) => (text.length <= 40 ? text : `${text.slice(0, 26)}…${text.slice(-13)}`);
  const plain = (text) => short(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
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
      yaxis: Object.assign({ title: { text: plain(drawn.score) } }, drawn.percent ? { tickformat: ".0%" } : {}, axis),
    }, more);
  }

  function see_through(colour, alpha) {
    const part = (k) => parseInt(colour.slice(k, k + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},${alpha})`;
  }

  // One curve: band, each run, mean, lowest, task ends.
  function traces(task, name, colour, dash, seeds) {
    const legendgroup = `: ${name}`; // plotly keeps groups as properties, and __proto__ is one already
    const group = { legendgroup, showlegend: false, hoverinfo: "skip", mode: "lines" };
    const found = [];
    if (task.sd.length) {
      const [low, high] = drawn.range || [-Infinity, Infinity];
      const up = task.y.map((y, k) => Math.min(y + task.sd[k], high));
      const down = task.y.map((y, k) => Math.max(y - task.sd[k], low));
      found.push(Object.assign({}, group, {
        x: task.x.concat(task.x.slice().reverse()), y: up.concat(down.slice().reverse()),
        fill: "toself", fillcolor: see_through(colour, 0.18), line: { width: 0 },
      }));
    }
    for (const [x, y] of seeds)
      found.push(Object.assign({}, group, { x, y, line: { color: see_through(colour, 0.45), width: 0.8 } }));
    found.push({
      x: task.x, y: task.y, mode: "lines", name: plain(name), legendgroup,
      line: { color: colour, width: 1.8, dash }, hovertemplate: "step %{x}: %{y:" + (drawn.percent ? ".1%" : ".3f") + "}",
    });
    if (task.low !== null && task.x.length)
      found.push(Object.assign({}, group, {
        x: [task.x[0], task.x[task.x.length - 1]], y: [task.low, task.low],
        line: { color: colour, width: 1, dash: "dash" },
      }));
    if (task.ends.length)
      found.push(Object.assign({}, group, {
        x: task.ends.map((end) => end[0]), y: task.ends.map((end) => end[1]), mode: "markers",
        marker: { symbol: "diamond", size: 9, color: colour, line: { width: 1, color: axes().ink } },
        hoverinfo: "x+y",
      }));
    return found;
  }

  function draw_curves() {
    const [kind, place] = view.value.split(" ");
    const methods = kind === "task" ? drawn.methods : [drawn.methods[place]];
    const lines = [];
    for (const method of methods) {
      const places = kind === "task" ? [Number(place)] : method.tasks.keys();
      for (const k of places) {
        if (k >= method.tasks.length) continue;
        const own = seeds.checked ? method.seeds.filter((s) => k < s.length).map((s) => s[k]) : [];
        const colour = kind === "task" ? method.colour : drawn.colours[k];
        const dash = kind === "task" ? method.dash : "solid";
        const name = kind === "task" ? method.name : method.names[k];
        lines.push(...traces(method.tasks[k], name, colour, dash, own));
      }
    }
    const switches = [...new Set(methods.flatMap((method) => method.switches))];
    const shapes = switches.map((x) => ({
      type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1,
      line: { color: axes().ink, width: 1, dash: "dot" }, opacity: 0.5,
    }));
    const all = layout({ shapes });
    if (drawn.range) {
      const [low, high] = drawn.range;
      all.yaxis.range = [low - 0.03 * (high - low), high + 0.03 * (high - low)];
    }
    if (zoom.value) {
      const [from, to] = zoom.value.split(" ").map(Number);
      all.xaxis.range = [from, to];
    }
    Plotly.react("curves-plot", lines, all, settings);
  }

  function fill_zoom() {
    const [kind, place] = view.value.split(" ");
    const methods = kind === "task" ? drawn.methods : [drawn.methods[place]];
    const switches = [...new Set(methods.flatMap((method) => method.switches))].sort((a, b) => a - b);
    const last = Math.max(...methods.flatMap((m) => m.tasks.flatMap((t) => t.x.slice(-1))));
    const wide = Math.max(10, Math.round(last / 50));
    zoom.replaceChildren(new Option("all of training", ""));
    switches.forEach((step, k) =>
      zoom.add(new Option(`around switch ${k + 1} (step ${step})`, `${step - wide / 2} ${step + 2 * wide}`)));
  }

  function draw_criteria() {
    const { names, methods } = drawn.criteria;
    const lines = methods.map((method) => ({
      type: "scatterpolar", name: plain(method.name), mode: "lines+markers",
      r: method.values.concat(method.values.slice(0, 1)),
      theta: names.concat(names.slice(0, 1)), line: { color: method.colour, dash: method.dash },
    }));
    const { line } = axes();
    Plotly.react("criteria-plot", lines, layout({
      polar: { bgcolor: "rgba(0,0,0,0)", radialaxis: { range: [0, 1], gridcolor: line }, angularaxis: { gridcolor: line } },
    }), settings);
  }

  const view = document.getElementById("view");
  const zoom = document.getElementById("zoom");
  const seeds = document.getElementById("seeds");
  const all = () => {
    if (drawn.methods.length) draw_curves();
    if (drawn.criteria) setTimeout(draw_criteria);
  };
  if (drawn.methods.length) {
    drawn.methods.forEach((method, k) => view.add(new Option(`${short(method.name)}: every task`, `method ${k}`)));
    drawn.tasks.forEach((task, k) => {
      const name = /^task /.test(task) ? task : `task ${task}`;
      view.add(new Option(`${short(name)}: every method`, `task ${k}`));
    });
    if (drawn.methods.length > 1) view.value = "task 0";
    seeds.parentElement.hidden = !drawn.methods.some((method) => method.seeds.length);
    fill_zoom();
    view.addEventListener("change", () => { fill_zoom(); draw_curves(); });
    zoom.addEventListener("change", draw_curves);
    seeds.addEventListener("change", draw_curves);
  }
  dark.addEventListener("change", all);
  // Paper is narrower than most screens, and a drawing does not shrink by itself.
  const plots = () => [...document.querySelectorAll(".plot.js-plotly-plot")];
  window.addEventListener("beforeprint", () =>
    plots().forEach((plot) => Plotly.relayout(plot, { width: 680, height: 360 })));
  window.addEventListener("afterprint", () =>
    plots().forEach((plot) => Plotly.relayout(plot, { width: null, height: null, autosize: true })));
  all();
  document.documentElement.dataset.drawn = "yes";
})();
