// A chart in SVG: series that can be zoomed, hovered over and hidden. Names are only ever text.
import { SYMBOLS, html, paint, svg, swatch, toPath } from "./elements.js";
import { Pointer } from "./pointer.js";
import { extent, isNumber, linear, ticks, visiblePoints } from "./scale.js";

const LETTER = 7.6; // width of a digit in pixels, at the font size of charts
const EDGE = 8; // pixels between the first and last points and the edge, for marks on them
const HINT = "Click to hide or show; double-click to show nothing else";

/* A figure is
   - series: x and y, of a band low and high too; name, group and style (colour, dark, dash); kind
     (line, band or marks), width, faint, symbol; describe(k) if the cursor finds its points; entry
     if the legend has it, which hides and shows all of its group;
   - x and y: title, range (that of the data by default), and whether ticks are percent;
   - boundaries (vertical lines), guides (closed lines in the ground) and labels, if any;
   - square: both axes have one scale and are not drawn;
   - key: zoom lasts until it changes; canFit: a reset of what is not zoomed shows all data. */
export class Plot {
  constructor(host) {
    this.legend = html("ul", "legend");
    this.canvas = svg("svg", {
      class: "canvas",
      role: "img",
      "aria-label": host.getAttribute("aria-label"),
    });
    this.tip = html("div", "tip", html("b", ""), html("span", ""));
    this.button = html("button", "reset", "Reset zoom");
    this.button.type = "button";
    this.button.addEventListener("click", () => this.setZoom(null));
    this.drawing = html("div", "drawing", this.canvas, this.button, this.tip);
    this.tip.hidden = this.button.hidden = this.legend.hidden = true;
    this.tip.setAttribute("aria-hidden", "true"); // tables have the numbers
    host.removeAttribute("role"); // the legend is no part of a picture
    host.removeAttribute("aria-label");
    host.classList.add("plot");
    host.replaceChildren(this.legend, this.drawing);
    host.plot = this;
    this.hidden = new Set(); // groups
    this.zoom = {};
    this.area = { left: 0, right: 0, top: 0, width: 0, height: 0 };
    this.pointer = new Pointer(this);
    // It also calls once at the start, when nothing has changed.
    new ResizeObserver(() => this.isFitting() || this.redraw()).observe(this.drawing);
  }

  isFitting() {
    const { width, height } = this.canvas.viewBox.baseVal;
    return width === this.drawing.clientWidth && height === this.drawing.clientHeight;
  }

  draw(figure) {
    if (figure.key !== this.figure?.key) this.zoom = {};
    this.figure = figure;
    this.fillLegend();
  }

  // Null: as at first. What is not given stays.
  setZoom(ranges) {
    const isWide = ([low, high]) =>
      high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-9);
    if (ranges && !Object.values(ranges).every(isWide)) return;
    this.zoom = ranges ? { ...this.zoom, ...ranges } : {};
    this.redraw();
  }

  reset() {
    const isZoomed = this.zoom.x || this.zoom.y;
    this.setZoom(
      !isZoomed && this.figure.canFit ? { x: this.dataRange("x"), y: this.dataRange("y") } : null,
    );
  }

  // A fixed size in pixels, or again that of the page.
  resize(width, height) {
    this.drawing.style.width = width ? `${width}px` : "";
    this.drawing.style.height = height ? `${height}px` : "";
    this.redraw();
  }

  dataRange(axis) {
    const lists = this.figure.series
      .filter((series) => !this.hidden.has(series.group))
      .flatMap((series) =>
        axis === "y" && series.low ? [series.low, series.high] : [series[axis]],
      );
    return extent(lists, axis === "y" ? 0.05 : EDGE / (this.drawing.clientWidth || EDGE));
  }

  redraw() {
    const [wide, high] = [this.drawing.clientWidth, this.drawing.clientHeight];
    if (!this.figure || !wide || !high || this.pointer.isSelecting) return;
    this.button.hidden = !this.zoom.x && !this.zoom.y;
    this.shown = this.figure.series.filter((series) => !this.hidden.has(series.group));
    const axes = this.layOut(wide, high);
    const { left, top, width, height } = this.area;
    this.toX = linear(this.ranges.x, [0, width]);
    this.toY = linear(this.ranges.y, [height, 0]);
    this.front = svg("g");
    this.canvas.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    this.canvas.replaceChildren(
      svg(
        "g",
        { transform: `translate(${left},${top})` },
        ...(this.figure.square ? [] : this.drawAxes(axes)),
        // An inner svg shows nothing outside of itself.
        svg(
          "svg",
          { class: "area", width, height },
          ...this.drawGround(),
          ...this.shown.map((series) => this.drawSeries(series)),
        ),
        ...(this.figure.labels ?? []).map((label) => this.drawLabel(label)).filter(Boolean),
        this.front,
      ),
    );
    if (this.pointer.last && !this.pointer.isDragging) this.pointer.hover();
  }

  // Sets the ranges and the area that the axes enclose; returns the ticks.
  layOut(wide, high) {
    const { figure } = this;
    this.ranges = Object.fromEntries(
      ["x", "y"].map((axis) => [
        axis,
        this.zoom[axis] ?? figure[axis].range ?? this.dataRange(axis),
      ]),
    );
    if (figure.square) {
      this.area = {
        left: 44,
        right: 44,
        top: 26,
        width: Math.max(wide - 88, 1),
        height: Math.max(high - 52, 1),
      };
      return this.keepSquare();
    }
    const top = figure.labels?.length ? 26 : 12;
    const height = Math.max(high - top - 46, 1);
    const y = ticks(this.ranges.y, height / 40, figure.y.percent);
    const left = 34 + LETTER * Math.max(...y.values.map((value) => y.write(value).length), 1);
    const width = Math.max(wide - left - 14, 1);
    this.area = { left, right: 14, top, width, height };
    return { x: ticks(this.ranges.x, width / 80), y };
  }

  keepSquare() {
    const { width, height } = this.area;
    const length = ([low, high]) => high - low;
    const unit = Math.min(width / length(this.ranges.x), height / length(this.ranges.y));
    const around = ([low, high], pixels) =>
      [-1, 1].map((side) => (low + high + (side * pixels) / unit) / 2);
    this.ranges = { x: around(this.ranges.x, width), y: around(this.ranges.y, height) };
  }

  drawAxes({ x, y }) {
    const { left, width, height } = this.area;
    const text = (content, attributes) => svg("text", attributes, content);
    const across = x.values.flatMap((value) => [
      svg("line", { class: "grid x", x1: this.toX(value), x2: this.toX(value), y2: height }),
      text(x.write(value), { class: "tick x", x: this.toX(value), y: height + 18 }),
    ]);
    const up = y.values.flatMap((value) => [
      svg("line", { class: "grid y", x2: width, y1: this.toY(value), y2: this.toY(value) }),
      text(y.write(value), { class: "tick y", x: -7, y: this.toY(value) }),
    ]);
    return [
      ...across,
      ...up,
      svg("path", { class: "frame", d: `M0,0V${height}H${width}` }),
      text(this.figure.x.title, { class: "title x", x: width / 2, y: height + 40 }),
      text(this.figure.y.title, {
        class: "title y",
        transform: `translate(${14 - left},${height / 2}) rotate(-90)`,
      }),
    ];
  }

  drawGround() {
    const { height } = this.area;
    return [
      svg("rect", { class: "ground", width: this.area.width, height }),
      ...(this.figure.guides ?? []).map(({ x, y, name }) =>
        svg("path", {
          class: `guide ${name}`,
          d: toPath(
            x.map((value, k) => [this.toX(value), this.toY(y[k])]),
            true,
          ),
        }),
      ),
      ...(this.figure.boundaries ?? []).map((x) =>
        svg("line", { class: "boundary", x1: this.toX(x), x2: this.toX(x), y2: height }),
      ),
    ];
  }

  // The pixels of a curve. On square charts x does not increase from point to point.
  pixels(x, y) {
    const points = this.figure.square
      ? x.map((value, k) => [value, y[k]])
      : visiblePoints(x, y, this.ranges.x, Math.ceil(this.area.width));
    return points.map(([a, b]) => [this.toX(a), isNumber(b) ? this.toY(b) : null]);
  }

  drawSeries(series) {
    const { kind, x, y, width = 2, symbol } = series;
    const group = paint(
      svg("g", { class: `series painted ${kind}${series.faint ? " faint" : ""}` }),
      series.style,
    );
    if (kind === "band")
      group.append(
        svg("path", {
          d: toPath(
            [...this.pixels(x, series.high), ...this.pixels(x, series.low).reverse()],
            true,
          ),
        }),
      );
    if (kind === "line")
      group.append(
        svg("path", {
          class: `curve ${series.style.dash}`,
          "stroke-width": width,
          d: toPath(this.pixels(x, y)),
        }),
      );
    if (symbol) {
      x.forEach(
        (value, k) =>
          isNumber(y[k]) &&
          group.append(
            svg("path", {
              class: `mark ${symbol}`,
              d: SYMBOLS[symbol],
              transform: `translate(${this.toX(value)},${this.toY(y[k])})`,
            }),
          ),
      );
    }
    return group;
  }

  // Without y it is above the area. `side` and `row` are -1, 0 or 1: where it is next to its point.
  drawLabel({ x, y, text, side = 0, row = 0, name = "" }) {
    const { width, height } = this.area;
    const [across, down] = [this.toX(x), y === undefined ? 0 : this.toY(y)];
    if (across < 0 || across > width || down < 0 || down > height) return null;
    const anchor = ["end", "middle", "start"][1 + side];
    return svg(
      "text",
      {
        class: `label ${name}`,
        x: across + 6 * side,
        y: y === undefined ? -9 : down + [16, 4, -8][1 + row],
        "text-anchor": anchor,
      },
      text,
    );
  }

  // What follows the cursor: one thing at a time.
  overlay(tag, attributes, style) {
    const node = tag && svg(tag, attributes);
    if (style) paint(node, style).classList.add("painted");
    this.front?.replaceChildren(...(node ? [node] : []));
  }

  fillLegend() {
    const entries = this.figure.series.filter((series) => series.entry);
    const groups = entries.map((series) => series.group);
    for (const group of this.hidden) if (!groups.includes(group)) this.hidden.delete(group);
    this.legend.hidden = !entries.length;
    this.legend.replaceChildren(
      ...entries.map(({ name, group, style, symbol }) => {
        const button = html("button", "entry", swatch(style, symbol), html("span", "", name));
        Object.assign(button, { type: "button", title: HINT });
        button.addEventListener("click", () =>
          this.hide(
            this.hidden.has(group) ? without(this.hidden, group) : [...this.hidden, group],
            groups,
          ),
        );
        button.addEventListener("dblclick", () => {
          const others = groups.filter((other) => other !== group);
          this.hide(
            others.every((other) => this.hidden.has(other)) && others.length ? [] : others,
            groups,
          );
        });
        return html("li", "", button);
      }),
    );
    this.hide(this.hidden, groups);
  }

  // The buttons stay, and with them the focus of the keyboard.
  hide(hidden, groups) {
    this.hidden = new Set(hidden);
    groups.forEach((group, k) =>
      this.legend.children[k].firstChild.setAttribute(
        "aria-pressed",
        String(!this.hidden.has(group)),
      ),
    );
    this.redraw();
  }
}

const without = (set, value) => [...set].filter((other) => other !== value);
