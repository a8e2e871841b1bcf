/** Looks of lines: colour, dashes and marker, so that lines are told apart without their colours. */

import { s } from "./dom.js";

const DASHES = ["", "7 3", "8 2.5 1.5 2.5", "1.8 2.4", "8 2 1.5 2 1.5 2", "1 1.4", "11 4", "4 1.6 1.2 1.6"];
/** Markers from their middle, as paths. */
export const SHAPES = [
  "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", "m-2.7-2.7h5.4v5.4h-5.4z", "m0-3.5l3.4 6h-6.8z", "m0-3.9l3.4 3.9l-3.4 3.9l-3.4-3.9z",
  "m0 3.5l3.4-6h-6.8z", "m-1-3.3h2v2.3h2.3v2h-2.3v2.3h-2v-2.3h-2.3v-2h2.3z",
  "m-3-2l1-1l2 2l2-2l1 1l-2 2l2 2l-1 1l-2-2l-2 2l-1-1l2-2z", "m0-4l1.1 2.7l2.9.2l-2.2 1.9l.7 2.8l-2.5-1.6l-2.5 1.6l.7-2.8l-2.2-1.9l2.9-.2z",
];
export const COLOURS = 8;

/** Return how the line of a place among all is drawn: no two of 64 are alike. */
export function look(place) {
  const again = Math.floor(place / COLOURS), colour = place % COLOURS;
  return { colour, dash: DASHES[(colour + again) % 8], shape: SHAPES[(colour + 3 * again) % 8] };
}

/** Return a short piece of a line with its marker, for a legend. */
export const swatch = ({ colour, dash, shape }) => s("svg", { class: `swatch c${colour}`, viewBox: "0 0 34 14", "aria-hidden": "true" },
  s("path", { class: "line", d: "M1 7H33", "stroke-dasharray": dash || null }), s("path", { class: "marks", d: `M17 7${shape}` }));

/** Return a custom property's value as the browser resolves it, for the canvas. */
export function resolved(name) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
