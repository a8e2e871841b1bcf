/** Values of agents by round: fetched in blocks of rounds, kept as levels that are drawn at once. */

import { get, part } from "./api.js";
import { level } from "./palette.js";

const AT_ONCE = 200000, MOST_BLOCKS = 24, LINK_ROUNDS = 20, MOST_LINK_ROUNDS = 100;

/** The frames of one measure of a run. */
export class Frames {
  low = Infinity;
  high = -Infinity;
  #blocks = new Map();
  #waiting = new Map();

  constructor(id, measure, rounds, nodes) {
    Object.assign(this, { id, measure, rounds, each: Math.max(1, Math.min(200, Math.floor(AT_ONCE / Math.max(1, nodes)))) });
  }

  /** Values of the round at a place of the list, one per agent; null while they are not here. */
  values(at) { return this.#blocks.get(Math.floor(at / this.each))?.get(this.rounds[at]) ?? null; }

  /** Fetch the block of a place, and the one behind it; returns once the first is here. */
  async fetch(at) {
    const block = Math.floor(at / this.each), further = (block + 1) * this.each < this.rounds.length;
    const first = this.#load(block);
    if (further) first.then(() => this.#load(block + 1)).catch(() => {});
    await first;
  }

  #load(block) {
    const rounds = this.rounds.slice(block * this.each, (block + 1) * this.each), known = this.#blocks.get(block);
    if (!rounds.length || (known && known.has(rounds.at(-1)))) return Promise.resolve();
    if (this.#waiting.has(block)) return this.#waiting.get(block);
    const path = `runs/${part(this.id)}/frames?measure=${part(this.measure)}&from=${rounds[0]}&to=${rounds.at(-1)}`;
    const loading = get(path).then((answer) => {
      this.#blocks.delete(block);
      this.#blocks.set(block, new Map(answer.rounds.map((round, k) => [round, answer.values[k]])));
      while (this.#blocks.size > MOST_BLOCKS) this.#blocks.delete(this.#blocks.keys().next().value);
      if (answer.low !== null) this.low = Math.min(this.low, answer.low);
      if (answer.high !== null) this.high = Math.max(this.high, answer.high);
    }).finally(() => this.#waiting.delete(block));
    this.#waiting.set(block, loading);
    return loading;
  }

  /** The least and the largest value of the scale: of the whole run, or of the round alone. */
  ends(at, own) {
    const values = own ? this.values(at)?.filter((value) => value !== null) : null;
    return values?.length ? [Math.min(...values), Math.max(...values)] : [this.low, this.high];
  }

  /** Levels of a round for the sheet: of the scale, of presence, of groups. */
  levels(at, own) {
    const values = this.values(at);
    if (!values) return null;
    if (this.measure === "cluster") return values.map((value) => value ?? -1);
    if (this.measure === "presence") return values.map((value) => (value === null ? -1 : Number(value >= 0.5)));
    const [low, high] = this.ends(at, own);
    return values.map((value) => level(value, low, high));
  }
}

/** Links that were not open, round by round: {state: [places of links]}, fetched in stretches of rounds. */
export class LinkFrames {
  #known = new Map();
  #waiting = new Map();

  constructor(id, rounds) { Object.assign(this, { id, rounds }); }

  /** States of the round at a place of the list; null while they are not here. */
  states(at) { return this.#known.get(this.rounds[at]) ?? null; }

  /** Fetch the round of a place, with some behind it. */
  fetch(at) {
    const first = this.rounds[at];
    if (first === undefined || this.#known.has(first)) return Promise.resolve();
    if (this.#waiting.has(first)) return this.#waiting.get(first);
    const last = this.rounds[Math.min(this.rounds.length, at + LINK_ROUNDS) - 1];
    const loading = get(`runs/${part(this.id)}/links?from=${first}&to=${last}`).then((answer) => {
      this.#known.set(first, {}); // where nothing was noted all are open
      for (const { round, states } of answer.rounds) this.#known.set(round, states);
      while (this.#known.size > MOST_LINK_ROUNDS) this.#known.delete(this.#known.keys().next().value);
    }).finally(() => this.#waiting.delete(first));
    this.#waiting.set(first, loading);
    return loading;
  }
}
