/** One agent of a graph: curves, neighbours, what it released and what that cost. */

import { fill, h, put, s } from "./dom.js";
import { count, number, some } from "./format.js";
import { badge } from "./glyphs.js";
import { look } from "./looks.js";
import { Plot, Shared } from "./plot.js";
import { LINKS, MEASURES, RUN_LINKS } from "./words.js";

const DASHES = { open: null, late: "7 4", lost: "5 3 1 3", dead: "2 4", refused: "10 3 2 3", quarantined: "1 3" };

/** States that links can be in, with how they are drawn: "open" and those that are `known` to occur; of peers, or of a simulation. */
export const linkKey = (known, peers = false) => h("ul", { class: "lines" }, ["open", ...known].map((state) => h("li", { title: (peers ? LINKS : RUN_LINKS)[state] },
  s("svg", { class: `stroke k-${state}`, viewBox: "0 0 34 10", "aria-hidden": "true" }, s("path", { d: "M1 5H33", "stroke-dasharray": DASHES[state] })), badge(state))));

/** Fill `place` with all about an agent. `name` gives that of another, `choose` opens it. Returns what shows its links, each a neighbour and a state. */
export function agentPanel(place, agent, { name, choose, has, source, onClose, key }) {
  const neighbours = (links) => (links.length ? h("ul", { class: "links" }, links.map(([id, state]) => h("li", {}, has(id)
    ? h("button", { type: "button", on: { click: () => choose(id) } }, name(id), state === "open" ? null : badge(state)) : `agent ${id}`))) : h("p", { class: "by" }, "nobody"));
  const released = agent.released, shared = new Shared();
  fill(place, h("h3", {}, "Released"), h("p", {}, released.words), h("dl", { class: "facts" }, h("dt", {}, "rounds with a release"), h("dd", {}, released.times === null ? "not known" : count(released.times)),
    h("dt", {}, "cost"), h("dd", {}, released.epsilon === null ? "not private: values leave as they are" : `epsilon ${number(released.epsilon)}`)));
  for (const measure of ["loss", "disagreement"]) {
    const values = agent.curve[measure];
    if (!values?.some((value) => value !== null)) continue;
    const known = values.map((_, k) => k).filter((k) => values[k] !== null);
    const plot = new Plot({ title: MEASURES[measure][0], unit: MEASURES[measure][1], caption: "", shared, source });
    plot.set([{ id: measure, label: name(agent.id), look: look(measure === "loss" ? 0 : 2), rounds: known.map((k) => agent.curve.rounds[k]), mean: known.map((k) => values[k]), low: null, high: null }]);
    onClose(() => plot.close());
    put(place, plot.element);
  }
  const around = h("div", { class: "around" }), closed = (links) => links.filter(([, state]) => state !== "open").length;
  const side = (verb, links) => [h("h3", {}, `${verb} ${some(links.length, "neighbour")}`), closed(links) ? h("p", { class: "by" }, `${some(closed(links), "link")} not open in this round`) : null, neighbours(links)];
  put(place, around, h("h3", {}, "Links"), key());
  return (out, into) => fill(around, side("Sends to", out), side("Hears", into));
}
