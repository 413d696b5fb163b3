// The elements of charts: lines, symbols and their colours.
import { isNumber } from "./scale.js";

const SVG = "http://www.w3.org/2000/svg";
export const SYMBOLS = {
  circle: "M3,0A3,3 0 1 1 -3,0A3,3 0 1 1 3,0Z",
  diamond: "M5.9,0L0,5.9L-5.9,0L0,-5.9Z",
  up: "M-5.2,2.3H5.2L0,-4.5Z",
  down: "M-5.2,-2.3H5.2L0,4.5Z",
};
const FAR = 1e5; // pixels: a line that goes further is as steep as one that ends there

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function html(tag, name, ...children) {
  const node = document.createElement(tag);
  node.className = name;
  node.append(...children);
  return node;
}

// Both colours are there, and the style sheet chooses: a new theme needs no new drawing.
export function paint(node, { colour, dark }) {
  node.style.setProperty("--light", colour);
  node.style.setProperty("--dark", dark);
  return node;
}

// A piece of a line, for legends and tables.
export function swatch(style, symbol) {
  const parts = [svg("line", { x2: 26, y1: 6, y2: 6, class: style.dash })];
  if (symbol)
    parts.push(svg("path", { d: SYMBOLS[symbol], class: "mark", transform: "translate(13,6)" }));
  return paint(
    svg("svg", { width: 26, height: 12, class: "swatch painted", "aria-hidden": "true" }, ...parts),
    style,
  );
}

export function toPath(points, isClosed) {
  let path = "";
  let isDown = false;
  for (const [x, y] of points) {
    if (isNumber(y))
      path += `${isDown ? "L" : "M"}${Math.round(10 * x) / 10},${Math.round(10 * Math.min(Math.max(y, -FAR), FAR)) / 10}`;
    isDown = isNumber(y);
  }
  return isClosed ? `${path}Z` : path;
}
