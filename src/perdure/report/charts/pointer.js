// What mouse, pen and finger do on a chart: values at the cursor, zoom by dragging, and panning.
import { isNumber } from "./scale.js";

const NEAR = { mouse: 20, pen: 25, touch: 40 }; // pixels around the cursor in which a point is found
const DRAG = 8; // pixels before a press becomes a drag
const FLAT = 20; // a box that is less high or wide than this, and than it is long, zooms one axis

export class Pointer {
  constructor(plot) {
    this.plot = plot;
    this.last = null; // where the cursor is
    this.start = null; // where it was pressed
    const { canvas } = plot;
    const on = (kind, act) =>
      canvas.addEventListener(kind, (event) => act.call(this, event, this.locate(event)));
    on("pointerdown", this.press);
    on("pointermove", this.move);
    on("pointerup", this.release);
    on("pointercancel", this.cancel);
    on("pointerleave", this.leave);
    on("dblclick", () => plot.reset());
  }

  // In pixels from the corner of the area that the axes enclose.
  locate(event) {
    const box = this.plot.canvas.getBoundingClientRect();
    const { left, top } = this.plot.area;
    return {
      x: event.clientX - box.left - left,
      y: event.clientY - box.top - top,
      kind: event.pointerType,
    };
  }

  press(event, at) {
    if (event.button !== 0 || !event.isPrimary) return;
    const { width, height } = this.plot.area;
    const isInside = at.x >= 0 && at.x <= width && at.y >= 0 && at.y <= height;
    const moved = event.shiftKey ? ["x", "y"] : at.x < 0 ? ["y"] : ["x"]; // on an axis: along it
    this.start = {
      ...at,
      pans: event.shiftKey || !isInside ? moved : null,
      ranges: this.plot.ranges,
    };
    this.plot.canvas.setPointerCapture(event.pointerId);
    this.last = at;
    this.hover();
  }

  move(event, at) {
    this.last = at;
    if (!this.start) return this.hover();
    const [dx, dy] = [at.x - this.start.x, at.y - this.start.y];
    this.isDragging ||= Math.hypot(dx, dy) >= DRAG;
    if (!this.isDragging) return;
    this.hideTip();
    if (this.start.pans) this.pan(dx, dy);
    else this.showBox(this.box(at));
  }

  release(event, at) {
    const { start, isDragging } = this;
    this.cancel();
    if (!start || !isDragging || start.pans) return;
    const { width, height } = this.plot.area;
    const { x, y } = this.box(at, start);
    const numbers = ([from, to], [low, high], size) =>
      [from, to].map((pixel) => low + (pixel / size) * (high - low));
    this.plot.setZoom({
      ...(x && { x: numbers(x, this.plot.ranges.x, width) }),
      ...(y && { y: numbers([height - y[1], height - y[0]], this.plot.ranges.y, height) }),
    });
  }

  cancel() {
    this.start = null;
    this.isDragging = false;
    this.plot.redraw(); // with what was drawn in the meantime, and without the box
  }

  leave(event) {
    if (event.pointerType === "touch") return; // what a finger chose stays when it is lifted
    this.last = null;
    this.hideTip();
  }

  get isSelecting() {
    return Boolean(this.isDragging && !this.start.pans);
  }

  pan(dx, dy) {
    const { width, height } = this.plot.area;
    const shift = { x: -dx / width, y: dy / height };
    this.plot.setZoom(
      Object.fromEntries(
        this.start.pans.map((axis) => {
          const [low, high] = this.start.ranges[axis];
          return [axis, [low, high].map((value) => value + shift[axis] * (high - low))];
        }),
      ),
    );
  }

  // The part between press and cursor; a flat one covers the other axis as a whole.
  box(at, start = this.start) {
    const { width, height } = this.plot.area;
    const [wide, high] = [Math.abs(at.x - start.x), Math.abs(at.y - start.y)];
    const part = (one, other, most) =>
      [one, other].map((value) => Math.min(Math.max(value, 0), most)).sort((a, b) => a - b);
    const [x, y] = [part(start.x, at.x, width), part(start.y, at.y, height)];
    if (this.plot.figure.square) return { x, y };
    if (high < Math.min(Math.max(0.6 * wide, DRAG), FLAT)) return { x };
    return wide < Math.min(0.6 * high, FLAT) ? { y } : { x, y };
  }

  showBox({ x, y }) {
    const { width, height } = this.plot.area;
    const [[left, right], [top, bottom]] = [x ?? [0, width], y ?? [0, height]];
    this.plot.overlay("rect", {
      class: "box",
      x: left,
      y: top,
      width: right - left,
      height: bottom - top,
    });
  }

  // The point that is nearest to the cursor among those of series that say what they are; of equal
  // ones the last, which is drawn on top.
  nearest() {
    const { toX, toY, shown } = this.plot;
    let best = { distance: NEAR[this.last.kind] ?? NEAR.mouse };
    for (const series of shown) {
      if (!series.describe) continue;
      for (let k = 0; k < series.x.length; k++) {
        const x = toX(series.x[k]);
        if (Math.abs(x - this.last.x) > best.distance || !isNumber(series.y[k])) continue;
        const y = toY(series.y[k]);
        const distance = Math.hypot(x - this.last.x, y - this.last.y);
        if (distance <= best.distance) best = { distance, series, k, x, y };
      }
    }
    return best;
  }

  hover() {
    const { series, k, x, y } = this.last && !this.start?.pans ? this.nearest() : {};
    const { width, height } = this.plot.area;
    if (!series || x < 0 || x > width || y < 0 || y > height) return this.hideTip();
    this.plot.overlay("circle", { class: "cursor", cx: x, cy: y, r: 4.5 }, series.style);
    const { tip, area } = this.plot;
    tip.firstChild.textContent = series.name;
    tip.lastChild.textContent = series.describe(k);
    tip.hidden = false;
    const side = x > width / 2 ? -tip.offsetWidth - 12 : 12;
    const most = width + area.left + area.right - tip.offsetWidth;
    tip.style.left = `${Math.min(Math.max(area.left + x + side, 0), Math.max(most, 0))}px`;
    tip.style.top = `${Math.max(area.top + y - tip.offsetHeight - 8, 0)}px`;
  }

  hideTip() {
    this.plot.tip.hidden = true;
    this.plot.overlay();
  }
}
