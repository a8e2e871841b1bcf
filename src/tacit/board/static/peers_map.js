/** A map of a federation: peers on a ring, links between them by their states, with a sign in the middle of those not open. */

import { fill, s } from "./dom.js";
import { STATES } from "./glyphs.js";

const DASHES = { open: null, late: "7 4", dead: "2 4", refused: "10 3 2 3", quarantined: "1 3" };
const SIGNS = { late: "…", dead: "×", refused: "–", quarantined: "!" };
const WIDTH = 620, HEIGHT = 420, NODE = 13;

/** All links as [from, to, state]; both ends tell of a link, and the worse of the two is shown. */
function linksOf(peers) {
  const worst = Object.keys(DASHES), found = new Map();
  for (const peer of peers) {
    for (const { peer: other, direction, state } of peer.links ?? []) {
      const [from, to] = direction === "out" ? [peer.name, other] : [other, peer.name], key = JSON.stringify([from, to]);
      if (worst.indexOf(state) >= worst.indexOf(found.get(key) ?? "open")) found.set(key, state);
    }
  }
  return [...found].map(([key, state]) => [...JSON.parse(key), state]);
}

/** Return a map with its element and `show(peers)`. */
export function federationMap() {
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });

  function show(peers) {
    const places = new Map(peers.map((peer, k) => {
      const angle = 2 * Math.PI * k / peers.length - Math.PI / 2;
      return [peer.name, [WIDTH / 2 + 205 * Math.cos(angle), HEIGHT / 2 + 150 * Math.sin(angle)]];
    }));
    const links = linksOf(peers).filter(([from, to]) => places.has(from) && places.has(to));
    const twoWays = new Set(links.map(([from, to]) => JSON.stringify([from, to])));
    fill(svg, links.map(([from, to, state]) => link(places.get(from), places.get(to), state, twoWays.has(JSON.stringify([to, from])))), peers.map((peer) => {
      const [x, y] = places.get(peer.name), below = y >= HEIGHT / 2, up = peer.state === "up";
      return s("g", {}, s("circle", { class: `node ${peer.state}`, cx: x, cy: y, r: NODE }),
        s("path", { class: `node-glyph ${peer.state}`, d: up ? "M-4 0-2.5-1.5-.6.4 3-3.8 4.6-2.3-.5 3.6z" : "M-4-2.5-2.5-4 0-1.5 2.5-4 4-2.5 1.5 0 4 2.5 2.5 4 0 1.5-2.5 4-4 2.5-1.5 0z", transform: `translate(${x} ${y}) scale(1.5)` }),
        s("text", { x, y: below ? y + NODE + 17 : y - NODE - 8 }, peer.name.length > 22 ? `${peer.name.slice(0, 21)}…` : peer.name));
    }));
    const closed = links.filter(([, , state]) => state !== "open");
    svg.setAttribute("aria-label", `${peers.length} peers, ${links.length} links; ${closed.length ? closed.map(([from, to, state]) => `from ${from} to ${to}: ${STATES[state]?.[2] ?? state}`).join("; ") : "all of them open"}`);
  }

  /** A link as a bow, so that the two ways of a pair lie beside each other. */
  function link([x, y], [u, v], state, bowed) {
    const far = Math.hypot(u - x, v - y) || 1, ex = (u - x) / far, ey = (v - y) / far, bow = bowed ? 14 : 0, mx = (x + u) / 2 - ey * bow, my = (y + v) / 2 + ex * bow;
    const way = Math.hypot(u - mx, v - my) || 1, hx = (u - mx) / way, hy = (v - my) / way, tx = u - hx * (NODE + 3), ty = v - hy * (NODE + 3);
    const head = `M${tx} ${ty}L${tx - 9 * hx + 4 * hy} ${ty - 9 * hy - 4 * hx}L${tx - 9 * hx - 4 * hy} ${ty - 9 * hy + 4 * hx}Z`, sx = (x + 2 * mx + u) / 4, sy = (y + 2 * my + v) / 4;
    return s("g", { class: `k-${state}` }, s("path", { class: "k", d: `M${x + ex * NODE} ${y + ey * NODE}Q${mx} ${my} ${tx} ${ty}`, "stroke-dasharray": DASHES[state] ?? null }), s("path", { class: "arrow", d: head }),
      SIGNS[state] ? [s("circle", { class: "k plate", cx: sx, cy: sy, r: 9 }), s("text", { class: "sign", x: sx, y: sy + 4.5, "font-weight": "bold" }, SIGNS[state])] : null);
  }

  return { element: svg, show };
}
