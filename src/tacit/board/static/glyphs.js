/** Glyphs of states: their shapes tell them apart without their colours. */

import { h, s } from "./dom.js";

const PATHS = {
  live: "M6 2a4 4 0 1 0 0 8a4 4 0 1 0 0-8z",
  done: "M1.6 6.4 3 5l2 2 4.2-4.6 1.4 1.3L5.1 10z",
  stopped: "M2.5 2.5h7v7h-7z",
  failed: "M3 1.6 6 4.6 9 1.6 10.4 3 7.4 6 10.4 9 9 10.4 6 7.4 3 10.4 1.6 9 4.6 6 1.6 3z",
  warn: "M6 1 11.4 10.6H.6zM5.3 4.4v3h1.4v-3zM5.3 8.2v1.3h1.4V8.2z",
  refused: "M6 1a5 5 0 1 0 0 10A5 5 0 1 0 6 1zM2.8 5.2h6.4v1.6H2.8z",
  late: "M6 1a5 5 0 1 0 0 10A5 5 0 1 0 6 1zM5.3 3h1.3v2.8l2 1.2-.7 1.1-2.6-1.6z",
  quarantined: "M6 1 10.5 2.6V6c0 2.6-2 4.3-4.5 5.2C3.5 10.3 1.5 8.6 1.5 6V2.6zM5.3 3.4v3.2h1.4V3.4zM5.3 7.5v1.3h1.4V7.5z",
  lost: "M1.6 5.2h2.8v1.6H1.6zM7 3.6 8.2 2.4 11.2 6 8.2 9.6 7 8.4 8.4 6.8H5.8V5.2h2.6z",
  none: "M2 5.2h8v1.6H2z",
};

/** How states are shown: glyph, tone, words. */
export const STATES = {
  live: ["live", "good", "live"], done: ["done", "calm", "done"], stopped: ["stopped", "warn", "stopped"],
  failed: ["failed", "bad", "failed"], up: ["done", "good", "up"], down: ["failed", "bad", "down"],
  refused: ["refused", "bad", "refused"], open: ["done", "good", "open"], late: ["late", "warn", "late"],
  dead: ["failed", "bad", "dead"], lost: ["lost", "bad", "lost"], quarantined: ["quarantined", "bad", "quarantined"],
  verified: ["done", "good", "chain verified"], broken: ["failed", "bad", "chain broken"], none: ["none", "calm", "no chain"],
};

/** Return a picture of a glyph; words beside it say what it means. */
export const glyph = (name) =>
  s("svg", { class: "glyph", viewBox: "0 0 12 12", "aria-hidden": "true" }, s("path", { d: PATHS[name], "fill-rule": "evenodd" }));

/** Return a badge of a state, with words of its own where `words` are given. */
export function badge(state, words) {
  const [name, tone, said] = STATES[state] ?? ["none", "calm", state];
  return h("span", { class: `badge ${tone}`, "data-state": state }, glyph(name), h("span", {}, words ?? said));
}

/** Return a sentence that needs attention ("warn", "bad") or none ("good"). */
export const note = (tone, ...words) =>
  h("p", { class: `notice ${tone}` }, glyph({ warn: "warn", bad: "failed", good: "done" }[tone]), h("span", {}, words));
