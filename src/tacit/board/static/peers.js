/** The federation: all peers at a glance, each with what an operator has to know; stop and start where that is allowed. */

import { get, part, post } from "./api.js";
import { announce, atMost, choice, command, fill, h, put, say } from "./dom.js";
import { bytes, count, duration, number, some } from "./format.js";
import { badge, glyph, note } from "./glyphs.js";
import { ledger, meter } from "./ledger.js";
import { look } from "./looks.js";
import { federationMap } from "./peers_map.js";
import { Plot, Shared } from "./plot.js";
import { glossary, LINKS } from "./words.js";

const SOON = 30, LITTLE = 5e9, BEHIND = 10;
const VERBS = { stop: ["Stop", "The peer ends its round, writes its store and ledger, and leaves. The others go on without it."], start: ["Start", "The peer reads its store and ledger again and goes on from the round that it reached."] };

/** What is wrong with a peer, worst first, as [tone, words]. */
function troubles(peer) {
  const found = [];
  if (peer.state !== "up") found.push(["bad", peer.state]);
  if (peer.model_finite === false) found.push(["bad", "its model is not finite"]);
  for (const each of peer.budget ?? []) if (each.limit !== null && each.runs_out !== false && each.left <= 0) found.push(["bad", `budget of ${each.class} used up`]);
  const links = (peer.links ?? []).filter((link) => link.state !== "open");
  if (links.length) found.push(["warn", `${some(links.length, "link")} not open`]);
  if (peer.lag >= BEHIND) found.push(["warn", `${count(peer.lag)} rounds behind`]);
  const days = ending(peer);
  if (days !== null && days < SOON) found.push([days < 0 ? "bad" : "warn", days < 0 ? "certificate has ended" : "certificate ends soon"]);
  if (peer.disk_free !== null && peer.disk_free < LITTLE) found.push(["warn", "little disk left"]);
  return found;
}

const ending = (peer) => (peer.certificate_expires ? (Date.parse(peer.certificate_expires) - Date.now()) / 86400000 : null);

/** A fact with a glyph where it needs attention. */
const fact = (name, tone, ...words) => [h("dt", {}, name), h("dd", { class: tone }, tone ? glyph(tone === "bad" ? "failed" : "warn") : null, words)];

const linkWords = (peer) => {
  const states = Map.groupBy(peer.links ?? [], (link) => link.state);
  return [...states].map(([state, links]) => `${links.length} ${state}`).join(", ") || "none";
};

function certificate(peer) {
  const days = ending(peer);
  if (days === null) return fact("certificate", null, "not known");
  const far = duration(86400 * (Math.abs(days) > 3 ? Math.floor(Math.abs(days)) : Math.abs(days)));
  return fact("certificate", days < 0 ? "bad" : days < SOON ? "warn" : null, days < 0 ? `ended ${far} ago` : `ends in ${far}`);
}

/** Errors of the same words once, with the time of the last and how often it came; the latest at the end. */
function together(errors) {
  const all = Map.groupBy(errors, (words) => words.replace(/^[\d-]+ [\d:]+ /, ""));
  return [...all.values()].map((same) => (same.length > 1 ? `${same.at(-1)} (${same.length} times)` : same[0]));
}

function card(peer, act) {
  const bad = peer.state !== "up", found = troubles(peer), since = !peer.since ? "" : Date.now() / 1000 - peer.since < 2 ? ", just now" : ` for ${duration(Date.now() / 1000 - peer.since)}`;
  const closed = (peer.links ?? []).filter((link) => link.state !== "open"), refusals = Object.entries(peer.refusals ?? {}).filter(([, times]) => times);
  return h("article", { class: `peer ${peer.state} ${found.length && !bad ? "late" : ""}`, "aria-label": `Peer ${peer.name}, ${peer.state}`, "data-peer": peer.name },
    h("header", {}, h("h2", {}, peer.name), badge(peer.state, bad ? peer.state + since : null)),
    bad ? h("p", { class: "by" }, peer.state === "down" ? "It does not answer: figures are the last ones known." : "It does not let the board in: its list of observers, or a certificate, differs.") : null,
    h("dl", { class: "facts" }, fact("round", null, count(peer.round), peer.lag ? h("small", {}, ` ${some(peer.lag, "round")} behind`) : null),
      fact("loss", null, number(peer.loss), peer.accuracy !== null && peer.accuracy !== undefined ? h("small", {}, ` score ${number(peer.accuracy)}`) : null),
      fact("model", peer.model_finite === false ? "bad" : null, peer.model_finite === null || peer.model_finite === undefined ? "not known" : peer.model_finite ? "finite" : "not finite: stop it, and go back to a checkpoint"),
      fact("links", closed.length ? "warn" : null, linkWords(peer)),
      closed.length ? [h("dt", {}), h("dd", {}, h("ul", {}, closed.map((link) => h("li", { title: LINKS[link.state] }, badge(link.state), ` ${link.direction === "in" ? "from" : "to"} ${link.peer}`))))] : null,
      fact("refusals", refusals.length ? "warn" : null, refusals.length ? refusals.map(([reason, times]) => `${count(times)} ${reason.replaceAll("_", " ")}`).join(", ") : "none"),
      fact("disk", peer.disk_free !== null && peer.disk_free < LITTLE ? "warn" : null, `${bytes(peer.disk_free)} free`), certificate(peer)),
    (peer.budget ?? []).map((each) => meter({ ...each, name: each.class === "all" ? "all records" : each.class })),
    peer.errors?.length ? [h("h3", { class: "unseen" }, "Last errors"), h("ul", { class: "errors" }, together(peer.errors).map((words) => h("li", {}, words)))] : null,
    h("div", { class: "buttons" }, h("a", { class: "button", href: `#/peers/${part(peer.name)}`, "aria-label": `More of ${peer.name}` }, "More"),
      (peer.may ?? []).filter((verb) => verb in VERBS && (verb === "stop") === (peer.state === "up")).map((verb) => h("button", { type: "button", class: verb === "stop" ? "danger" : null, "aria-label": `${VERBS[verb][0]} ${peer.name}`, on: { click: () => act(peer, verb) } }, `${VERBS[verb][0]} …`))));
}

function asRows(peers) {
  const heads = ["peer", "state", "round", "behind", "loss", "links", "refusals", "disk", "certificate", "least budget left", "model"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Peers as a table" }, h("table", {}, h("caption", { class: "unseen" }, "Peers"),
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, peers.map((peer) => {
      const least = (peer.budget ?? []).filter((each) => each.limit && each.runs_out !== false).sort((a, b) => a.left / a.limit - b.left / b.limit)[0], days = ending(peer);
      return h("tr", { "data-peer": peer.name }, h("th", { scope: "row" }, h("a", { href: `#/peers/${part(peer.name)}` }, peer.name)), [badge(peer.state), count(peer.round), count(peer.lag), number(peer.loss), linkWords(peer),
        count(Object.values(peer.refusals ?? {}).reduce((sum, times) => sum + times, 0)), bytes(peer.disk_free), days === null ? "–" : duration(Math.max(0, days) * 86400),
        least ? `${number(least.left, 3)} of ${number(least.limit, 3)} (${least.class})` : "–", peer.model_finite === false ? badge("failed", "not finite") : "finite"].map((each) => h("td", {}, each)));
    }))));
}

/** Ask before a peer is stopped or started. */
function asked(peer, verb) {
  return new Promise((answer) => {
    const [word, what] = VERBS[verb], title = h("h2", { id: "asked" }, `${word} ${peer.name}?`);
    const dialog = h("dialog", { "aria-labelledby": "asked", on: { close: () => { answer(dialog.returnValue === "yes"); dialog.remove(); } } }, title, h("p", {}, what),
      h("p", { class: "by" }, "It is written into the logs of the peer and of the board."),
      h("form", { method: "dialog", class: "buttons" }, h("button", { value: "no", autofocus: true }, "Leave it"), h("button", { value: "yes", class: verb === "stop" ? "danger" : "main" }, `${word} ${peer.name}`)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

const empty = () => h("div", { class: "empty" }, h("h2", {}, "No federation is watched"),
  h("p", {}, "Name the peers in a file, and give the board a certificate that may read their status and nothing else:"), command("tacit board --peers fleet.toml"),
  h("p", {}, "To try it on this machine, ", h("code", {}, "tacit new federation"), " makes three members with their identities and rows."));

let asTable = false;

/** Loss and lag of a peer, as the board has seen them since it was opened. */
async function history(place, name, { feed, alive, onClose }) {
  const shared = new Shared(), grid = h("div", { class: "plots" }), lines = { loss: ["Loss", "loss in the round"], lag: ["Rounds behind", "rounds"] };
  const drawn = Object.entries(lines).map(([key, [title, unit]]) => [key, new Plot({ title, unit, caption: "What the board has seen in the last quarter of an hour.", shared, source: name })]);
  for (const [, plot] of drawn) onClose(() => plot.close());
  const grow = async () => {
    const past = await get(`peers/${part(name)}/history`);
    if (!alive()) return;
    const at = past.round.map((_, k) => k).filter((k) => past.round[k] !== null && past.round[k] !== past.round[k - 1]);
    for (const [key, plot] of drawn) {
      const known = at.filter((k) => past[key][k] !== null);
      plot.set([{ id: key, label: name, look: look(0), rounds: known.map((k) => past.round[k]), mean: known.map((k) => past[key][k]), low: null, high: null }]);
      plot.element.hidden = !known.length;
    }
  };
  put(place, h("h2", {}, "As the board has seen it"), grid);
  put(grid, drawn.map(([, plot]) => plot.element));
  await grow();
  onClose(feed.on("peers", atMost(2000, () => grow().catch(() => {}))));
}

/** Show all peers, or the past and the ledger of the one that the address names. */
export async function view(context) {
  const { place, feed, rest: [named], alive, onClose } = context;
  if (named) {
    put(place, h("p", { class: "trail" }, h("a", { href: "#/peers" }, "Federation"), ` / ${named}`), h("h1", { tabindex: "-1" }, named));
    await history(place, named, context);
    await ledger(place, `peers/${part(named)}/ledger`, context, named);
    return;
  }
  const heard = feed.count;
  let peers;
  try {
    peers = (await get("peers")).peers;
  } catch (fault) {
    if (fault.status !== 404) throw fault; // a board without --peers has no such place
    peers = [];
  }
  if (!alive()) return;
  const roll = h("div", { class: "rollcall", role: "status" }), said = h("div", { role: "alert" }), all = h("div"), drawing = h("details", { class: "map", open: true });
  const map = federationMap(), before = new Map(), shown = new Map();
  const ways = h("div", { class: "controls" }, choice("Show as", [["cards", "cards"], ["table", "a table"]], asTable ? "table" : "cards", (value) => { asTable = value === "table"; shown.clear(); fill(all); show(); }));
  put(drawing, h("summary", {}, "Links between peers"), map.element);
  put(place, h("h1", { tabindex: "-1" }, "Federation"), roll, said, ways, all, drawing, glossary("agent, peer", "lag", "record class", "epsilon", "open", "late", "dead", "refused", "quarantined"));

  async function act(peer, verb) {
    if (!await asked(peer, verb)) return;
    fill(said);
    try {
      await post(`peers/${part(peer.name)}/${verb}`);
      announce(`${peer.name} was asked to ${verb}`);
      await again();
    } catch (fault) {
      fill(said, note("bad", `${peer.name} was not asked to ${verb}: ${fault.message}`));
    }
  }

  /** Peers in the order of the file; a card is made again where its peer changed, and focus stays where it is. */
  function show() {
    ways.hidden = drawing.hidden = !peers.length;
    if (!peers.length) { fill(roll); fill(all, empty()); return; }
    const states = Map.groupBy(peers, (peer) => peer.state), ailing = peers.filter((peer) => peer.state === "up" && troubles(peer).length).length;
    const words = [`${states.get("up")?.length ?? 0} of ${some(peers.length, "peer")} up`, ...["down", "refused"].filter((state) => states.has(state)).map((state) => `${states.get(state).length} ${state}: ${states.get(state).map((peer) => peer.name).join(", ")}`), ailing ? `${ailing} of those up need attention` : null].filter(Boolean);
    if (roll.dataset.now !== words.join("; ")) {
      roll.dataset.now = words.join("; ");
      fill(roll, badge(states.size === 1 && states.has("up") ? "up" : "down", words[0]), h("span", {}, words.slice(1).join("; ")));
    }
    for (const peer of peers) {
      const was = before.get(peer.name);
      if (was && was !== peer.state) say(document.getElementById("announcer"), `${peer.name} is ${peer.state}`);
      before.set(peer.name, peer.state);
    }
    map.show(peers);
    if (asTable) { fill(all, asRows(peers)); return; }
    if (!all.firstChild?.matches?.(".peers")) fill(all, h("div", { class: "peers" }));
    const cards = peers.map((peer) => {
      const known = shown.get(peer.name), text = JSON.stringify(peer) + (peer.state === "up" ? "" : Math.floor(Date.now() / 1000));
      if (known?.text === text) return known.element;
      const element = card(peer, act), focused = known?.element.contains(document.activeElement) ? document.activeElement.textContent : null;
      known?.element.replaceWith(element);
      if (focused) [...element.querySelectorAll("a, button")].find((each) => each.textContent === focused)?.focus();
      shown.set(peer.name, { text, element });
      return element;
    });
    const now = [...all.firstChild.children];
    if (now.length !== cards.length || now.some((element, k) => element !== cards[k])) all.firstChild.replaceChildren(...cards);
  }

  async function again() {
    try {
      const now = (await get("peers")).peers;
      if (alive()) { peers = now; show(); }
    } catch { /* the page says that the connection is lost */ }
  }
  show();
  const showSoon = atMost(300, () => alive() && show());
  onClose(feed.on("peers", (now) => { peers = now.peers; showSoon(); }));
  onClose(feed.on("state", ({ state }) => state === "open" && again()));
  if (feed.count !== heard) again();
  const clock = setInterval(() => peers.some((peer) => peer.state !== "up") && show(), 1000); // "down, for 12 s"
  onClose(() => clearInterval(clock));
}
