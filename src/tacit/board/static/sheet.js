/** The sheet that a graph is drawn on: links on one layer that is kept, agents over it in every frame. */

import { h } from "./dom.js";
import { resolved } from "./looks.js";
import { groupColours, outline, SCALE } from "./palette.js";

const MOST_DASHED = 5000;
const DASHES = { open: [], late: [7, 4], lost: [5, 3, 1, 3], dead: [2, 4], refused: [10, 3, 2, 3], quarantined: [1, 3] };
const NAMES = ["ink", "soft", "page", "card", "edge", "accent", "warn", "bad"];

/** A canvas that shows places, links, and a level or group of each agent; it is moved, zoomed and pressed on. */
export class Sheet {
  #places = new Float32Array(0);
  #view = { x: 0, y: 0, scale: 1 };
  #moved = false;
  #layer = document.createElement("canvas");
  #stale = true;
  #asked = false;
  levels = null;
  /** Places of the links that are not open, by their states: they are drawn over the others in every frame. */
  marked = {};
  kind = "number";
  chosen = null;
  hovered = null;
  /** Frames that were drawn, and milliseconds that drawing them took. */
  drawn = { frames: 0, milliseconds: 0 };

  constructor({ nodes, links, pressed, pointed }) {
    Object.assign(this, { nodes, links, pressed, pointed });
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-roledescription": "graph" });
    this.pen = this.canvas.getContext("2d");
    this.watch = new ResizeObserver(() => this.#resize());
    this.watch.observe(this.canvas);
    this.#listen();
    this.theme = () => { this.colours = Object.fromEntries(NAMES.map((name) => [name, resolved(`--${name}`)])); this.groups = groupColours(); this.draw(true); };
    addEventListener("theme", this.theme);
    this.theme();
  }

  close() {
    this.watch.disconnect();
    removeEventListener("theme", this.theme);
  }

  /** Take places; until the reader has moved the picture, all of it is shown. */
  place(places) {
    this.#places = places;
    if (!this.#moved) this.fit(); else this.draw(true);
  }

  fit() {
    const places = this.#places, { width, height } = this.#size;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let k = 0; k < places.length; k += 2) {
      left = Math.min(left, places[k]); right = Math.max(right, places[k]);
      top = Math.min(top, places[k + 1]); bottom = Math.max(bottom, places[k + 1]);
    }
    if (!(right >= left)) return;
    const scale = Math.min((width - 50) / (right - left || 1), (height - 50) / (bottom - top || 1));
    this.#view = { scale, x: width / 2 - scale * (left + right) / 2, y: height / 2 - scale * (top + bottom) / 2 };
    this.#moved = false;
    this.draw(true);
  }

  zoom(factor, at = null) {
    const { width, height } = this.#size, [x, y] = at ?? [width / 2, height / 2], view = this.#view;
    this.#view = { scale: view.scale * factor, x: x - factor * (x - view.x), y: y - factor * (y - view.y) };
    this.#moved = true;
    this.draw(true);
  }

  /** Ask for a frame; `all` where links have changed, too. */
  draw(all = false) {
    this.#stale ||= all;
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => { this.#asked = false; if (this.canvas.isConnected) this.#paint(); });
  }

  get #size() { return { width: this.canvas.clientWidth || 600, height: this.canvas.clientHeight || 400 }; }

  #resize() {
    const { width, height } = this.#size, ratio = Math.min(2, devicePixelRatio || 1);
    for (const canvas of [this.canvas, this.#layer]) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
    this.ratio = ratio;
    if (this.#moved) this.draw(true); else this.fit();
  }

  at(k) { return [this.#places[2 * k] * this.#view.scale + this.#view.x, this.#places[2 * k + 1] * this.#view.scale + this.#view.y]; }

  radius(k) {
    const n = this.nodes.length, plain = n > 1200 ? 3.2 : n > 400 ? 4.2 : n > 80 ? 6 : 9;
    return plain * Math.min(3, Math.sqrt(this.nodes[k].size > 1 ? 1 + Math.log10(this.nodes[k].size) : 1));
  }

  #paint() {
    const began = performance.now(), { pen } = this, { width, height } = this.#size;
    if (this.#stale) this.#links();
    this.#stale = false;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.#layer, 0, 0);
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.#places.length) {
      this.#marks();
      if (this.chosen !== null) this.#chosenLinks();
      this.#agents(width, height);
      for (const k of new Set([this.hovered, this.chosen])) if (k !== null) this.#ring(k);
    }
    this.drawn.frames += 1;
    this.drawn.milliseconds += performance.now() - began;
  }

  /** All links, thinner the more there are. */
  #links() {
    const pen = this.#layer.getContext("2d"), many = this.links.length;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.#layer.width, this.#layer.height);
    if (!this.#places.length) return;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.beginPath();
    for (const link of this.links) this.#stroke(pen, ...link, many <= 600);
    pen.globalAlpha = many > 6000 ? 0.22 : many > 1500 ? 0.32 : 0.6;
    pen.strokeStyle = this.colours.edge;
    pen.lineWidth = many > 3000 ? 0.6 : 0.9;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** Links that are not open in the round, by their dashes; of very many, by their colours. */
  #marks() {
    const { pen, colours } = this, many = Object.values(this.marked).reduce((sum, all) => sum + all.length, 0);
    for (const [state, all] of Object.entries(this.marked)) {
      pen.beginPath();
      for (const k of all) if (this.links[k]) this.#stroke(pen, ...this.links[k], this.links.length <= 600);
      pen.strokeStyle = state === "late" ? colours.warn : colours.bad;
      pen.lineWidth = many > 1000 ? 0.8 : 1.4;
      pen.setLineDash(many > MOST_DASHED ? [] : DASHES[state] ?? []);
      pen.stroke();
      pen.setLineDash([]);
    }
  }

  /** A link from the rim of one agent to that of another, with a head that shows its way. */
  #stroke(pen, from, to, heads) {
    const [x, y] = this.at(from), [u, v] = this.at(to);
    if (!heads) { pen.moveTo(x, y); pen.lineTo(u, v); return; }
    const far = Math.hypot(u - x, v - y) || 1, ex = (u - x) / far, ey = (v - y) / far, end = this.radius(to) + 2;
    const [px, py] = [u - ex * end, v - ey * end];
    pen.moveTo(x + ex * this.radius(from), y + ey * this.radius(from));
    pen.lineTo(px, py);
    pen.moveTo(px - 6 * ex + 3 * ey, py - 6 * ey - 3 * ex);
    pen.lineTo(px, py);
    pen.lineTo(px - 6 * ex - 3 * ey, py - 6 * ey + 3 * ex);
  }

  /** Links of the agent that was pressed on, by their states: dashes, and a sign in their middle. */
  #chosenLinks() {
    const { pen, colours } = this, { id, into, out } = this.chosen, signs = [];
    const link = (from, to, state, colour) => {
      pen.beginPath();
      this.#stroke(pen, from, to, true);
      pen.strokeStyle = { late: colours.warn, open: colour }[state] ?? colours.bad;
      pen.lineWidth = 2;
      pen.setLineDash(DASHES[state] ?? []);
      pen.stroke();
      pen.setLineDash([]);
      if (state !== "open") signs.push([from, to, state]);
    };
    for (const [other, state] of into) link(other, id, state, colours.soft);
    for (const [other, state] of out) link(id, other, state, colours.accent);
    for (const [from, to, state] of signs) {
      const [x, y] = this.at(from), [u, v] = this.at(to), mx = (x + u) / 2, my = (y + v) / 2;
      pen.beginPath(); pen.arc(mx, my, 8, 0, 2 * Math.PI); pen.fillStyle = colours.card; pen.fill();
      pen.strokeStyle = pen.fillStyle = state === "late" ? colours.warn : colours.bad; pen.lineWidth = 1.5; pen.stroke();
      pen.font = "bold 11px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
      pen.fillText({ late: "…", lost: "?", dead: "×", refused: "–", quarantined: "!" }[state], mx, my + 0.5);
    }
  }

  /** All agents, by level or group: one path for each. */
  #agents(width, height) {
    const { pen, levels, colours } = this, by = new Map();
    for (let k = 0; k < this.nodes.length; k++) {
      const [x, y] = this.at(k);
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      const each = levels ? levels[k] : -1;
      if (!by.has(each)) by.set(each, new Path2D());
      outline(by.get(each), this.kind === "group" && each >= 0 ? each % 8 : 0, x, y, this.radius(k));
    }
    pen.lineWidth = this.nodes.length > 1200 ? 0.5 : 0.9;
    for (const [each, path] of by) {
      const away = this.kind === "presence" && each === 0, unknown = each < 0;
      pen.fillStyle = away || unknown ? colours.card : this.kind === "group" ? this.groups[each % this.groups.length] : this.kind === "presence" ? this.groups[0] : SCALE[each];
      pen.strokeStyle = away || unknown ? colours.ink : colours.soft;
      if (unknown) pen.setLineDash([2, 2]);
      pen.fill(path);
      pen.stroke(path);
      pen.setLineDash([]);
    }
  }

  #ring(which) {
    const k = typeof which === "object" ? which.id : which, [x, y] = this.at(k), { pen, colours } = this;
    pen.beginPath(); pen.arc(x, y, this.radius(k) + 4.5, 0, 2 * Math.PI);
    pen.lineWidth = 5; pen.strokeStyle = colours.page; pen.stroke();
    pen.lineWidth = 2.5; pen.strokeStyle = which === this.chosen ? colours.accent : colours.ink; pen.stroke();
  }

  /** The agent under a place of the canvas. */
  #under(x, y, reach = 14) {
    let best = null, least = reach ** 2;
    for (let k = 0; k < this.nodes.length && this.#places.length; k++) {
      const [u, v] = this.at(k), square = (u - x) ** 2 + (v - y) ** 2;
      if (square < least) { least = square; best = k; }
    }
    return best;
  }

  /** The nearest agent in a direction: near, and not far aside. */
  #towards(from, dx, dy) {
    const [x, y] = this.at(from);
    let best = from, least = Infinity;
    for (let k = 0; k < this.nodes.length; k++) {
      const [u, v] = this.at(k), ahead = (u - x) * dx + (v - y) * dy, aside = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
      if (k !== from && ahead > 0.5 && ahead + 2.5 * aside < least) { least = ahead + 2.5 * aside; best = k; }
    }
    return best;
  }

  #hover(k) {
    if (k === this.hovered) return;
    this.hovered = k;
    this.pointed(k);
    this.draw();
  }

  #listen() {
    const { canvas } = this, held = new Map();
    let pressed = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, [event.offsetX, event.offsetY]);
      pressed = held.size === 1 ? [event.offsetX, event.offsetY] : null;
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = [event.offsetX, event.offsetY], before = held.get(event.pointerId);
      if (!before) { this.#hover(this.#under(...at)); return; }
      if (held.size === 2) {
        const [, other] = [...held].find(([id]) => id !== event.pointerId), apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
        this.zoom(apart(at) / apart(before), other);
      } else if (!pressed || Math.hypot(at[0] - pressed[0], at[1] - pressed[1]) > 4) {
        pressed = null;
        this.#view.x += at[0] - before[0]; this.#view.y += at[1] - before[1];
        this.#moved = true;
        this.draw(true);
      } else return;
      held.set(event.pointerId, at);
    });
    const release = (event) => {
      held.delete(event.pointerId);
      const k = pressed && event.type === "pointerup" ? this.#under(...pressed) : null;
      pressed = null;
      if (k !== null) this.pressed(k);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls until the picture is pressed on
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), [event.offsetX, event.offsetY]);
    }, { passive: false });
    canvas.addEventListener("blur", () => this.#hover(null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const from = this.hovered ?? this.chosen?.id ?? null;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ways[event.key] && this.#places.length) this.#hover(from === null ? 0 : this.#towards(from, ...ways[event.key]));
    else if ((event.key === "Enter" || event.key === " ") && from !== null) this.pressed(from);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") { this.#hover(null); this.pressed(null); }
    else return;
    event.preventDefault();
  }
}
