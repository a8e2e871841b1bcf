/** Colours and shapes of agents: an even scale from dark blue to yellow for numbers, eight colours with shapes for groups. */

import { h, s } from "./dom.js";
import { number } from "./format.js";
import { COLOURS, resolved } from "./looks.js";

/** Anchors of the scale; the lightness grows evenly, so that it is read without colours, too. */
const ANCHORS = [[20, 32, 92], [38, 76, 132], [62, 114, 142], [98, 149, 138], [154, 181, 118], [218, 205, 90], [252, 232, 90]];
export const LEVELS = 48;

/** The colours of the scale, from the least to the largest. */
export const SCALE = Array.from({ length: LEVELS }, (_, k) => {
  const at = k / (LEVELS - 1) * (ANCHORS.length - 1), left = Math.min(ANCHORS.length - 2, Math.floor(at)), part = at - left;
  return `rgb(${ANCHORS[left].map((each, channel) => Math.round(each + part * (ANCHORS[left + 1][channel] - each))).join(" ")})`;
});

/** Return the level of a value between two; -1 where it is not known. */
export function level(value, low, high) {
  if (value === null) return -1;
  return high > low ? Math.max(0, Math.min(LEVELS - 1, Math.floor((value - low) / (high - low) * LEVELS))) : 0;
}

const SIDES = [0, 4, 3, 4, 3, 5, 6, 8];
const TURNS = [0, Math.PI / 4, -Math.PI / 2, 0, Math.PI / 2, -Math.PI / 2, 0, Math.PI / 8];

/** Add the outline of a shape to a path, or to a canvas: 0 is a circle, others have corners. */
export function outline(path, shape, x, y, radius) {
  const sides = SIDES[shape % 8];
  if (!sides) { path.moveTo(x + radius, y); path.arc(x, y, radius, 0, 2 * Math.PI); return; }
  for (let k = 0; k < sides; k++) {
    const angle = TURNS[shape % 8] + 2 * Math.PI * k / sides, to = [x + 1.2 * radius * Math.cos(angle), y + 1.2 * radius * Math.sin(angle)];
    if (k) path.lineTo(...to); else path.moveTo(...to);
  }
  path.closePath();
}

function sign(shape, attributes) {
  const corners = [];
  outline({ moveTo: (x, y) => corners.push(`M${x.toFixed(1)} ${y.toFixed(1)}`), lineTo: (x, y) => corners.push(`L${x.toFixed(1)} ${y.toFixed(1)}`), arc: () => corners.splice(0, 1, "M3 8a5 5 0 1 0 10 0a5 5 0 1 0-10 0"), closePath: () => corners.push("Z") }, shape, 8, 8, 5);
  return s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: corners.join(""), ...attributes }));
}

/** Colours of groups, as the canvas takes them. */
export const groupColours = () => Array.from({ length: COLOURS }, (_, k) => resolved(`--c${k}`));

/** Return the legend of a measure. */
export function key(measure, { low, high, groups }) {
  const none = h("span", {}, sign(0, { fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": "2 2" }), "not known");
  if (measure === "presence") {
    return [h("span", {}, sign(0, { fill: "var(--c0)" }), "took part"), h("span", {}, sign(0, { fill: "none", stroke: "currentColor", "stroke-width": 1.5 }), "was away"), none];
  }
  if (measure === "cluster") {
    return groups.slice(0, 16).map((each) => h("span", {}, sign(each % 8, { fill: `var(--c${each % COLOURS})` }), `cluster ${each}`)).concat(groups.length > 16 ? "and others" : []);
  }
  const bar = h("canvas", { width: "180", height: "12", "aria-hidden": "true" }), pen = bar.getContext("2d");
  SCALE.forEach((colour, k) => { pen.fillStyle = colour; pen.fillRect(Math.floor(180 * k / LEVELS), 0, Math.ceil(180 / LEVELS) + 1, 12); });
  return [h("span", {}, number(low, 3), bar, number(high, 3)), none];
}
