/** Plots of lines over rounds: SVG drawn to the size that it has, with values under the pointer and by the arrow keys. */

import { announce, atMost, fill, h, put, s, say } from "./dom.js";
import { number } from "./format.js";
import { swatch } from "./looks.js";
import { columns, csv, fileName, save, standing } from "./saving.js";
import { ends, Scale, smoothed, thinned, tickText } from "./scales.js";

const LEFT = 58, RIGHT = 26, TOP = 24, BOTTOM = 38, MARKERS = 7;
let plots = 0;

const bounded = (line) => Boolean(line.low?.some((value) => value !== null));

/** What all plots of a page share: scales, smoothing, and lines that are switched off. */
export class Shared {
  logX = false;
  logY = false;
  smooth = 1;
  bands = true;
  hidden = new Set();
  #plots = new Set();

  add(plot) { this.#plots.add(plot); }
  remove(plot) { this.#plots.delete(plot); }
  changed() { for (const plot of this.#plots) plot.drawSoon(); }
}

/**
 * A plot. `lines` are {id, label, look, rounds, mean, low, high}: `mean` and what bounds it hold null where nothing is
 * known; `step` draws stairs. `limits` are {value, label}.
 */
export class Plot {
  lines = [];
  limits = [];
  #box = { width: 0, height: 0 };
  #at = null;

  constructor({ title, unit, caption, shared, source = "" }) {
    Object.assign(this, { title, unit, caption, shared, source, id: plots++ });
    this.svg = s("svg", { class: "plot", role: "img", tabindex: "0" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.legend = h("ul", { class: "legend" });
    this.note = h("figcaption", {});
    const button = (words, work, spoken) => h("button", { type: "button", class: "small", "aria-label": `${spoken} of ${title}`, on: { click: work } }, words);
    this.element = h("figure", { class: "chart" }, h("div", { class: "head" }, h("h3", {}, title),
      h("span", { class: "actions" }, button("CSV", () => this.#save("csv"), "Download the data as CSV"),
        button("JSON", () => this.#save("json"), "Download the data as JSON"), button("SVG", () => this.#save("svg"), "Download the picture as SVG"))),
    this.legend, h("div", { class: "stage" }, this.svg, this.tip), this.note);
    this.drawSoon = atMost(60, () => this.element.isConnected && this.#draw());
    this.svg.addEventListener("pointermove", (event) => this.#point(this.#round(event.clientX - this.svg.getBoundingClientRect().left)));
    this.svg.addEventListener("pointerleave", () => this.#point(null));
    this.svg.addEventListener("blur", () => this.#point(null));
    this.svg.addEventListener("keydown", (event) => this.#key(event));
    this.watch = new ResizeObserver(() => this.drawSoon());
    this.watch.observe(this.element);
    shared.add(this);
  }

  /** Show lines; the plot is drawn again soon. */
  set(lines, limits = []) {
    const named = (all) => all.map((line) => `${line.id}\n${line.label}`).join("\n");
    const same = named(lines) === named(this.lines);
    this.lines = lines;
    this.limits = limits;
    if (!same) this.#name();
    this.drawSoon();
  }

  close() {
    this.watch.disconnect();
    this.shared.remove(this);
  }

  /** The legend; its names switch lines in every plot of the page. */
  #name() {
    fill(this.legend, this.lines.length < 2 ? null : this.lines.map((line) => h("li", { "data-line": line.id },
      h("button", { type: "button", "aria-pressed": "true", on: { click: () => {
        const { hidden } = this.shared;
        if (!hidden.delete(line.id)) hidden.add(line.id);
        this.shared.changed();
      } } }, swatch(line.look), h("span", {}, line.label)))));
  }

  get #shown() { return this.lines.filter((line) => !this.shared.hidden.has(line.id)); }

  #draw() {
    const { shared } = this;
    const width = Math.max(220, this.svg.parentElement.clientWidth), height = Math.round(Math.min(360, Math.max(200, width * 0.52)));
    const lines = this.#shown.map((line) => ({ ...line, mean: smoothed(line.mean, shared.smooth),
      low: shared.bands && bounded(line) ? smoothed(line.low, shared.smooth) : null, high: shared.bands && bounded(line) ? smoothed(line.high, shared.smooth) : null }));
    const heights = [...lines.flatMap((line) => [line.mean, line.low ?? [], line.high ?? []]), this.limits.map((each) => each.value)];
    this.x = new Scale(...ends(lines.map((line) => [line.rounds[0] ?? null, line.rounds.at(-1) ?? null]), shared.logX), shared.logX);
    this.y = new Scale(...ends(heights, shared.logY), shared.logY, 0.05);
    this.#box = { width, height };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const entry of this.legend.children) {
      const off = shared.hidden.has(entry.dataset.line);
      entry.classList.toggle("off", off);
      entry.firstChild.setAttribute("aria-pressed", String(!off));
    }
    const empty = !lines.some((line) => line.mean.some((value) => value !== null));
    this.cursor = s("g", { class: "cursor" });
    fill(this.svg, this.#grid(empty), s("g", { "clip-path": `url(#within-${this.id})` }, this.#limits(), lines.map((line) => this.#line(line))), this.cursor);
    this.svg.setAttribute("aria-label", this.#words(lines));
    const left = shared.logY && lines.some((line) => line.mean.some((value) => value !== null && value <= 0));
    say(this.note, [this.caption, shared.smooth > 1 && `Drawn as means over ${shared.smooth} recorded rounds; the data are not.`,
      left && "Values at 0 or below have no place on a logarithmic scale."].filter(Boolean).join(" "));
    if (this.#at !== null) this.#point(this.#at);
  }

  #right(round) { return LEFT + this.x.at(round) * (this.#box.width - LEFT - RIGHT); }
  #down(value) { return this.#box.height - BOTTOM - this.y.at(value) * (this.#box.height - TOP - BOTTOM); }

  #grid(empty) {
    const { width, height } = this.#box, floor = height - BOTTOM;
    const parts = [s("clipPath", { id: `within-${this.id}` }, s("rect", { x: LEFT, y: TOP - 4, width: width - LEFT - RIGHT + 4, height: floor - TOP + 8 }))];
    for (const tick of this.x.ticks(width / 110)) {
      const at = this.#right(tick);
      parts.push(s("path", { class: "grid", d: `M${at} ${TOP}V${floor}` }), s("text", { class: "x", x: at, y: floor + 16 }, tickText(tick)));
    }
    for (const tick of this.y.ticks(height / 52)) {
      const at = this.#down(tick);
      parts.push(s("path", { class: "grid", d: `M${LEFT} ${at}H${width - RIGHT}` }), s("text", { class: "y", x: LEFT - 7, y: at + 4 }, tickText(tick)));
    }
    parts.push(s("path", { class: "axis", d: `M${LEFT} ${TOP}V${floor}H${width - RIGHT}` }),
      s("text", { class: "name", x: 8, y: 13 }, this.unit), s("text", { class: "x name", x: (LEFT + width - RIGHT) / 2, y: height - 5 }, "round"));
    if (empty) parts.push(s("text", { class: "x", x: width / 2, y: height / 2 }, this.lines.length ? "No values to draw" : "Waiting for the first round"));
    return parts;
  }

  #limits() {
    return this.limits.filter((each) => each.value !== null).map(({ value, label }) => {
      const at = this.#down(value);
      return [s("path", { class: "limit", d: `M${LEFT} ${at}H${this.#box.width - RIGHT}` }),
        s("text", { class: "y limit", x: this.#box.width - RIGHT - 4, y: at + 13 }, label)];
    });
  }

  #line(line) {
    const kept = thinned(line.mean, Math.max(100, this.#box.width - LEFT - RIGHT));
    const xs = kept.map((k) => this.#right(line.rounds[k])), ys = kept.map((k) => this.#down(line.mean[k]));
    let path = "", pen = false;
    ys.forEach((y, k) => {
      const known = Number.isFinite(y) && Number.isFinite(xs[k]);
      if (known) path += !pen ? `M${xs[k].toFixed(1)} ${y.toFixed(1)}` : line.step ? `H${xs[k].toFixed(1)}V${y.toFixed(1)}` : `L${xs[k].toFixed(1)} ${y.toFixed(1)}`;
      pen = known;
    });
    const every = Math.max(1, Math.floor(kept.length / MARKERS));
    const marks = ys.map((y, k) => (k % every === Math.floor(every / 2) && Number.isFinite(y) && Number.isFinite(xs[k])
      ? `M${xs[k].toFixed(1)} ${y.toFixed(1)}${line.look.shape}` : "")).join("");
    return s("g", { class: `c${line.look.colour}`, "data-line": line.id }, this.#band(line),
      s("path", { class: "line", d: path || null, "stroke-dasharray": line.look.dash || null }), this.lines.length > 1 || kept.length === 1 ? s("path", { class: "marks", d: marks || null }) : null);
  }

  /** The band between the bounds; pieces of it where bounds are missing. */
  #band(line) {
    if (!line.low || !line.high) return null;
    const columns = Math.max(50, Math.round((this.#box.width - LEFT - RIGHT) / 2));
    const kept = thinned(line.high, columns), floor = this.#box.height - BOTTOM;
    let path = "", piece = [];
    const close = () => {
      if (piece.length > 1) path += `M${piece.map(([x, , y]) => `${x} ${y}`).join("L")}L${piece.reverse().map(([x, y]) => `${x} ${y}`).join("L")}Z`;
      piece = [];
    };
    for (const k of kept) {
      const x = this.#right(line.rounds[k]), high = this.#down(line.high[k]), low = this.#down(line.low[k]);
      if (!Number.isFinite(x) || !Number.isFinite(high)) { close(); continue; }
      piece.push([x.toFixed(1), (Number.isFinite(low) ? low : floor).toFixed(1), high.toFixed(1)]);
    }
    close();
    return path ? s("path", { class: "band", d: path }) : null;
  }

  #words(lines) {
    const told = lines.map((line) => {
      const last = line.mean.findLastIndex((value) => value !== null);
      return last < 0 ? `${line.label} has no values` : `${line.label} is ${number(line.mean[last])} at round ${line.rounds[last]}`;
    });
    return `${this.title}: ${told.slice(0, 8).join("; ") || "nothing yet"}. Arrow keys tell the values of rounds.`;
  }

  #rounds() {
    const shown = this.#shown;
    return shown.length === 1 ? shown[0].rounds : [...new Set(shown.flatMap((line) => line.rounds))].sort((a, b) => a - b);
  }

  /** The round nearest to a place of the pointer. */
  #round(place) {
    const rounds = this.#rounds();
    if (!rounds.length || !this.x) return null;
    const distance = (k) => Math.abs(this.#right(rounds[k]) - place);
    let low = 0, high = rounds.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (distance(middle + 1) <= distance(middle)) low = middle + 1; else high = middle;
    }
    return rounds[low];
  }

  #key(event) {
    const rounds = this.#rounds(), jump = Math.max(1, Math.round(rounds.length / 10));
    const from = this.#at === null ? rounds.length : rounds.findIndex((round) => round >= this.#at);
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from + jump, PageDown: from - jump, Home: 0, End: rounds.length - 1 }[event.key];
    if (event.key === "Escape") this.#point(null);
    if (to === undefined || !rounds.length) return;
    event.preventDefault();
    this.#point(rounds[Math.min(rounds.length - 1, Math.max(0, to))]);
    announce(this.tip.innerText.replaceAll("\n", ", "));
  }

  /** Tell the values of a round; none for null. */
  #point(round) {
    this.#at = round;
    this.tip.hidden = round === null;
    fill(this.cursor ?? this.svg.appendChild(s("g")));
    if (round === null || !this.x) return;
    const found = this.#shown.map((line) => {
      const k = line.rounds.findLastIndex((each) => each <= round);
      return { line, value: k < 0 ? null : smoothed(line.mean.slice(Math.max(0, k - this.shared.smooth + 1), k + 1), this.shared.smooth).at(-1),
        low: this.shared.smooth > 1 ? null : line.low?.[k], high: this.shared.smooth > 1 ? null : line.high?.[k] };
    }).sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
    const x = this.#right(round);
    put(this.cursor, s("path", { d: `M${x} ${TOP}V${this.#box.height - BOTTOM}` }),
      found.filter(({ value }) => Number.isFinite(this.#down(value))).map(({ line, value }) => s("circle", { class: `c${line.look.colour}`, cx: x, cy: this.#down(value), r: 4 })));
    fill(this.tip, h("b", {}, `round ${round.toLocaleString("en-GB")}`), h("ul", {}, found.map(({ line, value, low, high }) => h("li", { class: `c${line.look.colour}` },
      h("b", {}, number(value)), low !== null && low !== undefined ? ` (${number(low)} to ${number(high)})` : "", this.lines.length > 1 ? ` ${line.label}` : ""))));
    this.tip.classList.toggle("left", x > this.#box.width / 2);
  }

  #save(kind) {
    const name = fileName([this.source, this.title].filter(Boolean).join(" "));
    if (kind === "svg") save(`${name}.svg`, "image/svg+xml", standing(this.svg, this.title));
    else if (kind === "csv") save(`${name}.csv`, "text/csv", csv(columns(this.#shown)));
    else save(`${name}.json`, "application/json", JSON.stringify({ title: this.title, unit: this.unit, lines: this.#shown.map(({ label, rounds, mean, low, high }) => ({ label, rounds, mean, low, high })) }));
  }
}
