/** One agent of a graph: curves, neighbours, what it released and what that cost. */

import { fill, h, put, s } from "./dom.js";
import { count, number, some } from "./format.js";
import { badge } from "./glyphs.js";
import { look } from "./looks.js";
import { Plot, Shared } from "./plot.js";
import { LINKS, MEASURES } from "./words.js";

const DASHES = { open: null, late: "7 4", dead: "2 4", refused: "10 3 2 3", quarantined: "1 3" };

/** The states of links, with how they are drawn. */
export const linkKey = () => h("ul", { class: "lines" }, Object.entries(LINKS).map(([state, words]) => h("li", { title: words },
  s("svg", { class: `stroke k-${state}`, viewBox: "0 0 34 10", "aria-hidden": "true" }, s("path", { d: "M1 5H33", "stroke-dasharray": DASHES[state] })), badge(state))));

/** Fill `place` with all about an agent. `name` gives that of another, `choose` opens it. */
export function agentPanel(place, agent, { name, choose, has, source, onClose }) {
  const states = new Map(agent.links.map((link) => [link.to, link.state]));
  const neighbours = (ids, state) => (ids.length ? h("ul", { class: "links" }, ids.map((id) => h("li", {}, has(id)
    ? h("button", { type: "button", on: { click: () => choose(id) } }, name(id), state && (states.get(id) ?? "open") !== "open" ? badge(states.get(id)) : null) : `agent ${id}`))) : h("p", { class: "by" }, "nobody"));
  const released = agent.released, shared = new Shared();
  fill(place, h("h3", {}, "Released"), h("p", {}, released.words), h("dl", { class: "facts" }, h("dt", {}, "releases"), h("dd", {}, count(released.times)),
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
  const late = agent.links.filter((link) => link.state !== "open");
  put(place, h("h3", {}, `Sends to ${some(agent.out.length, "neighbour")}`), late.length ? h("p", { class: "by" }, `${some(late.length, "link")} not open`) : null, neighbours([...new Set(agent.out)], true),
    h("h3", {}, `Hears ${some(agent.into.length, "neighbour")}`), neighbours([...new Set(agent.into)], false), h("h3", {}, "Links"), linkKey());
}
