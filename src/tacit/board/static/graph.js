/** Agents and links of a run: drawn, coloured by a measure, scrubbed through its rounds, and as a table. */

import { get, part } from "./api.js";
import { agentPanel, linkKey } from "./agent.js";
import { announce, atMost, choice, fill, h, put, say } from "./dom.js";
import { count, number, some } from "./format.js";
import { Frames, LinkFrames } from "./frames.js";
import { key as colourKey } from "./palette.js";
import { Sheet } from "./sheet.js";
import { glossary, MEASURES } from "./words.js";

const ROWS = 25;
const SPEEDS = [["4", "4 frames/s"], ["12", "12 frames/s"], ["30", "30 frames/s"], ["60", "60 frames/s"]];

/** Let a worker find places for agents; `seen` gets them as they become better. */
function arrange(agents, links, seen, onClose) {
  const worker = new Worker(new URL("layout.js", import.meta.url), { type: "module" });
  onClose(() => worker.terminate());
  worker.onmessage = ({ data }) => { seen(data); if (data.done) worker.terminate(); };
  worker.postMessage({ agents, links: Int32Array.from(links.flat()), seed: 1, quiet: matchMedia("(prefers-reduced-motion: reduce)").matches });
}

/** Fill `place` with the graph of a run. */
export async function graph(place, run, { feed, alive, onClose }) {
  const shape = await get(`runs/${part(run.id)}/graph`);
  if (!alive()) return;
  if (!shape.nodes.length) {
    put(place, h("div", { class: "empty" }, h("p", {}, run.state === "live" ? "The graph is shown once the first round is recorded." : "This run has kept no graph.")));
    return;
  }
  const { nodes, links } = shape, marks = new LinkFrames(run.id, shape.rounds), key = () => linkKey(shape.link_states, run.kind === "swarm"), unit = shape.aggregated ? "group" : "agent";
  const state = { measure: shape.measures[0], at: Math.max(0, shape.rounds.length - 1), playing: null, speed: 12, page: 0, order: "id", own: false };
  const stores = new Map(), busy = h("p", { class: "busy", role: "status" }, "Finding places"), tip = h("div", { class: "tip", hidden: true });
  const frames = (measure = state.measure) => {
    if (!stores.has(measure)) stores.set(measure, new Frames(run.id, measure, shape.rounds, nodes.length));
    return stores.get(measure);
  };

  const sheet = new Sheet({ nodes, links, pressed: (k) => choose(k), pointed: (k) => point(k) });
  onClose(() => sheet.close());
  // What a benchmark reads: frames that were drawn, and the time that drawing took.
  place.drawn = sheet.drawn;
  sheet.canvas.setAttribute("aria-label", `${some(nodes.length, unit)}, ${some(links.length, "link")}. Arrow keys go from one to the next, Enter opens it, plus and minus zoom, 0 shows all. The same as a table below.`);
  const zoom = (words, sign, work) => h("button", { type: "button", "aria-label": words, on: { click: work } }, sign);
  const legend = h("div", { class: "key" }), panel = h("aside", { class: "panel", "aria-label": "Chosen agent" });
  const slider = h("input", { type: "range", min: "0", max: String(Math.max(0, shape.rounds.length - 1)), is: { value: state.at }, "aria-label": "Round", on: { input: () => { pause(); go(Number(slider.value)); } } });
  const told = h("output"), closed = h("p", { class: "by closed" }), play = h("button", { type: "button", class: "play", on: { click: () => (state.playing ? pause() : start()) } }, "▶ Play");
  const rows = h("details", { on: { toggle: () => list() } }, h("summary", {}, `The ${unit}s as a table`), h("div"));
  put(place,
    h("div", { class: "controls" }, choice("Colour by", shape.measures.map((each) => [each, MEASURES[each]?.[0] ?? each]), state.measure, (value) => { state.measure = value; go(state.at); list(); }),
      choice("Scale", [["run", "of the whole run"], ["round", "of each round"]], "run", (value) => { state.own = value === "round"; go(state.at); }),
      h("span", { class: "by" }, `${some(shape.agents, "agent")}${shape.aggregated ? `, drawn as ${some(nodes.length, "group")}` : ""}, ${shape.left_out ? `${some(shape.left_out, "link")}, too many to be drawn` : some(links.length, "link")}`)),
    h("div", { class: "graph" }, h("div", {}, h("div", { class: "sheet" }, sheet.canvas, busy, tip,
      h("div", { class: "zoom", role: "group", "aria-label": "Zoom" }, zoom("Zoom in", "+", () => sheet.zoom(1.25)), zoom("Zoom out", "−", () => sheet.zoom(0.8)), zoom("Show all", "⤢", () => sheet.fit()))),
    legend, closed, h("div", { class: "scrub" }, play, slider, told, choice("Speed", SPEEDS, "12", (value) => { state.speed = Number(value); if (state.playing) { pause(); start(); } })), rows), panel),
    glossary("agent, peer", "disagreement", "epsilon"));
  slider.parentElement.hidden = shape.rounds.length < 2;
  closed.hidden = !shape.link_states.length;
  choose(null);
  arrange(nodes.length, links, ({ places, done }) => { sheet.place(places); busy.hidden = done; if (done) place.dataset.placed = "yes"; }, onClose);
  onClose(() => pause());

  /** Show the round at a place of the list; the newest wish wins where frames come late. */
  async function go(at) {
    state.at = at;
    slider.value = String(at);
    const round = shape.rounds[at], store = frames();
    say(told, round === undefined ? "no rounds yet" : `round ${count(round)}`);
    slider.setAttribute("aria-valuetext", told.textContent);
    if (round === undefined) return;
    if (!store.values(at)) {
      try {
        await store.fetch(at);
      } catch (fault) {
        say(told, fault.message);
        return;
      }
      if (!alive() || state.at !== at || frames() !== store) return;
    }
    sheet.kind = { cluster: "group", presence: "presence" }[state.measure] ?? "number";
    sheet.levels = store.levels(at, state.own);
    sheet.draw();
    markLinks(at);
    if (!store.values(Math.min(shape.rounds.length - 1, at + store.each))) store.fetch(at).catch(() => {});
    explain(store);
    if (rows.open) listSoon();
  }

  /** Mark links that were not open in the round, those of the chosen agent too. */
  async function markLinks(at) {
    if (!shape.link_states.length) return;
    if (!marks.states(at)) {
      try {
        await marks.fetch(at);
      } catch { return; }
      if (!alive() || state.at !== at) return;
    }
    sheet.marked = marks.states(at) ?? {};
    const words = Object.entries(sheet.marked).filter(([, all]) => all.length).map(([each, all]) => `${count(all.length)} ${each}`).join(", ");
    say(closed, `Links in this round: ${words || "all open"}`);
    showLinks();
    sheet.draw();
  }

  /** Links of the chosen agent with their states in the round, on the sheet and in the panel. */
  function showLinks() {
    if (state.chosen === null || state.chosen === undefined) return;
    const known = new Map(Object.entries(sheet.marked).flatMap(([each, all]) => all.map((k) => [k, each])));
    const out = [], into = [];
    links.forEach(([from, to], k) => {
      if (from === state.chosen) out.push([to, known.get(k) ?? "open"]);
      if (to === state.chosen) into.push([from, known.get(k) ?? "open"]);
    });
    sheet.chosen = { id: state.chosen, out, into };
    state.fillLinks?.(out, into);
  }

  /** The legend, made again where its ends have moved. */
  function explain(store) {
    const [low, high] = store.ends(state.at, state.own), now = `${state.measure} ${low} ${high}`;
    if (legend.dataset.now === now) return;
    legend.dataset.now = now;
    const groups = [...new Set(nodes.map((node) => node.cluster).filter((each) => each !== null))].sort((a, b) => a - b);
    const [name, meaning] = MEASURES[state.measure] ?? [state.measure, ""];
    fill(legend, h("span", {}, h("b", {}, name), meaning && `: ${meaning}`), colourKey(state.measure, { low, high, groups }));
  }

  function start() {
    if (state.at >= shape.rounds.length - 1) go(0);
    let last = performance.now();
    const next = (now) => {
      if (!state.playing) return;
      if (now - last >= 1000 / state.speed - 4 && frames().values(state.at)) {
        last = now;
        if (state.at >= shape.rounds.length - 1) { pause(); return; }
        go(state.at + 1);
      }
      state.playing = requestAnimationFrame(next);
    };
    state.playing = requestAnimationFrame(next);
    say(play, "❚❚ Pause");
  }

  function pause() {
    if (state.playing) cancelAnimationFrame(state.playing);
    state.playing = null;
    say(play, "▶ Play");
  }

  const name = (k) => (/\D/.test(nodes[k].label) ? nodes[k].label : `${unit} ${nodes[k].id}`);
  const valueOf = (k) => {
    const value = frames().values(state.at)?.[k];
    if (value === null || value === undefined) return "not known";
    return state.measure === "presence" ? (value >= 0.5 ? "took part" : "was away") : state.measure === "cluster" ? `cluster ${value}` : number(value);
  };

  function point(k) {
    tip.hidden = k === null;
    if (k === null) return;
    const [x, y] = sheet.at(k), words = `${MEASURES[state.measure]?.[0] ?? state.measure}: ${valueOf(k)}`;
    fill(tip, h("b", {}, name(k)), h("div", {}, words));
    const { clientWidth: width, clientHeight: height } = sheet.canvas;
    tip.style.transform = `translate(${Math.max(4, x > width / 2 ? x - tip.offsetWidth - 14 : x + 14)}px, ${Math.max(4, Math.min(height - 60, y - 20))}px)`;
    if (document.activeElement === sheet.canvas) announce(`${name(k)}, ${words}`);
  }

  /** Open an agent: its links on the sheet, and all about it in the panel; null closes it. */
  async function choose(k) {
    state.chosen = k;
    state.fillLinks = null;
    sheet.chosen = null;
    sheet.draw();
    const find = h("input", { type: "number", min: "0", max: String(nodes.length - 1), "aria-label": `Number of the ${unit}`, placeholder: "0" });
    const finder = h("form", { class: "find", on: { submit: (event) => {
      event.preventDefault();
      const found = nodes.findIndex((node) => node.id === Number(find.value));
      if (find.value !== "" && found >= 0) choose(found);
    } } }, h("label", { class: "field" }, h("span", {}, unit === "agent" ? "Agent" : "Group"), find), h("button", { type: "submit" }, "Open"));
    if (k === null) {
      fill(panel, h("h2", {}, "No agent chosen"), h("p", { class: "by" }, `Press on one, or name its number: its curve, its neighbours, what it released and what that cost.`), finder, h("h3", {}, "Links"), key());
      return;
    }
    showLinks();
    sheet.draw();
    const body = h("div", { "aria-busy": "true" });
    fill(panel, h("button", { type: "button", class: "small close", "aria-label": "Close the agent", on: { click: () => { choose(null); sheet.canvas.focus(); } } }, "close"), h("h2", {}, name(k)), body, finder);
    announce(`${name(k)} opened`);
    try {
      const agent = await get(`runs/${part(run.id)}/agents/${nodes[k].id}`);
      if (!alive() || state.chosen !== k) return;
      const places = new Map(nodes.map((node, at) => [node.id, at]));
      state.fillLinks = agentPanel(body, agent, { name: (id) => name(places.get(id)), choose: (id) => choose(places.get(id)), has: (id) => places.has(id), source: `${run.label} ${name(k)}`, onClose, key });
      showLinks();
    } catch (fault) {
      if (state.chosen === k) fill(body, h("p", {}, fault.message));
    }
    body.removeAttribute("aria-busy");
  }

  /** The same as a table: sorted, a page at a time. */
  function list() {
    if (!rows.open) return;
    const values = frames().values(state.at) ?? [], into = new Array(nodes.length).fill(0), out = new Array(nodes.length).fill(0);
    for (const [from, to] of links) { out[from] += 1; into[to] += 1; }
    const order = [...nodes.keys()];
    if (state.order !== "id") order.sort((a, b) => (state.order === "high" ? 1 : -1) * ((values[b] ?? -Infinity) - (values[a] ?? -Infinity)));
    const pages = Math.ceil(order.length / ROWS), show = (page) => { state.page = page; list(); rows.querySelector(page ? ".back" : ".on").focus(); };
    state.page = Math.min(state.page, pages - 1);
    fill(rows.lastChild, h("div", { class: "controls" }, choice("Order", [["id", "by number"], ["high", "largest value first"], ["low", "least value first"]], state.order, (value) => { state.order = value; state.page = 0; list(); })),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${unit}s` }, h("table", {}, h("caption", { class: "unseen" }, `${unit}s at ${told.textContent}`),
        h("thead", {}, h("tr", {}, [unit, MEASURES[state.measure]?.[0] ?? state.measure, "cluster", "sends to", "hears"].map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, order.slice(state.page * ROWS, (state.page + 1) * ROWS).map((k) => h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "small", on: { click: () => choose(k) } }, name(k))),
          h("td", {}, valueOf(k)), h("td", {}, nodes[k].cluster ?? "–"), h("td", {}, out[k]), h("td", {}, into[k])))))),
      pages > 1 ? h("div", { class: "pages" }, h("button", { type: "button", class: "back", disabled: state.page === 0, on: { click: () => show(state.page - 1) } }, "Back"), `${state.page + 1} of ${pages}`,
        h("button", { type: "button", class: "on", disabled: state.page === pages - 1, on: { click: () => show(state.page + 1) } }, "On")) : null);
  }
  const listSoon = atMost(500, list);

  await go(state.at);
  // A live run: what is recorded comes at the end of the slider, which stays there if it was there.
  const more = atMost(2000, async () => {
    try {
      const { rounds, link_states: states } = await get(`runs/${part(run.id)}/frames?measure=${part(state.measure)}&from=${(shape.rounds.at(-1) ?? 0) + 1}&to=${2 ** 31}`);
      const later = rounds.filter((round) => round > (shape.rounds.at(-1) ?? 0));
      if (!alive() || !later.length) return;
      if (states.length > shape.link_states.length) { // the first quarantine, say
        shape.link_states = states;
        closed.hidden = false;
        if (state.chosen === null) choose(null);
      }
      const following = state.at >= shape.rounds.length - 1 && !state.playing;
      shape.rounds.push(...later);
      slider.max = String(shape.rounds.length - 1);
      slider.parentElement.hidden = shape.rounds.length < 2;
      if (following) go(shape.rounds.length - 1);
    } catch { /* the page says that the connection is lost */ }
  });
  onClose(feed.on("progress", ({ id }) => id === run.id && more()));
  onClose(feed.on("runs", more));
}
