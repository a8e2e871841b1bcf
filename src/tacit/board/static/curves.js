/** Curves of runs: fetched once, grown while a run is live, drawn in plots that share their scales. */

import { get, part } from "./api.js";
import { atMost, choice, h, tick } from "./dom.js";
import { Plot, Shared } from "./plot.js";
import { FIGURES, title } from "./words.js";

/** The curves of a run, as far as they are known: each has the rounds in which it was measured. */
export class Curves {
  last = 0;
  curves = {};

  constructor(id) { this.id = id; }

  #turn = Promise.resolve();

  /** Fetch what is new, one question after another; whether there was any. */
  grow() {
    this.#turn = this.#turn.catch(() => {}).then(() => this.#fetch());
    return this.#turn;
  }

  async #fetch() {
    const { rounds, curves } = await get(`runs/${part(this.id)}/curves?after=${this.last}`);
    if (!rounds.length) return false;
    for (const [name, more] of Object.entries(curves)) {
      const measured = rounds.map((_, k) => k).filter((k) => more.mean[k] !== null), known = this.curves[name] ?? { rounds: [], mean: [], low: [], high: [] };
      const grown = (before, values) => before.concat(measured.map((k) => values?.[k] ?? null));
      this.curves[name] = { rounds: grown(known.rounds, rounds), mean: grown(known.mean, more.mean), low: grown(known.low, more.low), high: grown(known.high, more.high) };
    }
    this.last = rounds.at(-1);
    return true;
  }
}

/**
 * Plots of all curves of some runs. `runs` are {id, label, look, live}; the plots are appended to `place`.
 * Returns once they are drawn for the first time.
 */
export async function plots(place, runs, { feed, alive, onClose, score, source = "", only = () => true }) {
  const shared = new Shared(), known = runs.map((run) => ({ ...run, curves: new Curves(run.id) })), made = new Map();
  const grid = h("div", { class: "plots" }), change = (key) => (value) => { shared[key] = value; shared.changed(); };
  const controls = h("div", { class: "controls", role: "group", "aria-label": "How plots are drawn" },
    tick("log values", shared.logY, change("logY")), tick("log rounds", shared.logX, change("logX")), tick("bands", shared.bands, change("bands")),
    choice("Smoothing", [["1", "off"], ["5", "5 rounds"], ["20", "20 rounds"], ["100", "100 rounds"]], "1", (value) => change("smooth")(Number(value))));
  place.append(h("h2", { class: "unseen" }, "Curves"), controls, grid);

  function show() {
    const names = Object.keys(FIGURES).filter((name) => only(name) && known.some((run) => run.curves.curves[name]?.mean.length));
    for (const name of names) {
      if (!made.has(name)) {
        const plot = new Plot({ title: title(name, score), unit: name === "score" && score ? title(name, score).toLowerCase() : FIGURES[name][1], caption: FIGURES[name][2], shared, source });
        made.set(name, plot);
        onClose(() => plot.close());
        const next = [...made.keys()].sort((a, b) => Object.keys(FIGURES).indexOf(a) - Object.keys(FIGURES).indexOf(b));
        grid.replaceChildren(...next.map((each) => made.get(each).element));
      }
      made.get(name).set(known.filter((run) => run.curves.curves[name]).map((run) => ({ id: run.id, label: run.label, look: run.look, ...run.curves.curves[name] })));
    }
    for (const [name, plot] of made) if (!names.includes(name)) { plot.close(); plot.element.remove(); made.delete(name); }
    regretless.hidden = !names.length || names.some((name) => name.startsWith("regret")) || !known.some((run) => run.live) || !only("regret");
    controls.hidden = !names.length;
    waiting.hidden = Boolean(names.length);
  }

  const waiting = h("p", { class: "empty", hidden: true }, runs.some((run) => run.live) ? "Waiting for the first round: curves appear here as they are learnt." : "This run has noted no curves.");
  const regretless = h("p", { class: "by regretless", hidden: true }, "Regret: while a run goes on it is estimated in four thousandths of its time, a first time after about a minute; not at all where figures are those of called clients alone, of several devices, or of a sweep, study or swarm. The true one comes with the results.");
  grid.before(waiting);
  grid.after(regretless);
  const heard = feed.count;
  await Promise.all(known.map((run) => run.curves.grow()));
  if (!alive()) return;
  show();
  /** Grow a run's curves; make them anew where it has ended meanwhile: its results have others, true regret among them. */
  async function renewed(run) {
    const ended = run.ended;
    run.due = run.ended = false;
    if (!ended) return run.curves.grow();
    const all = new Curves(run.id);
    await all.grow();
    run.curves = all;
    return true;
  }
  const grow = atMost(700, async () => {
    try {
      const grown = await Promise.all(known.filter((run) => run.due).map(renewed));
      if (alive() && grown.some(Boolean)) show();
    } catch { /* the connection is lost, which the page says; it grows when it is back */ }
  });
  const due = (test) => { for (const run of known) if (test(run)) run.due = true; if (known.some((run) => run.due)) grow(); };
  onClose(feed.on("progress", ({ id }) => due((run) => run.id === id)));
  onClose(feed.on("runs", ({ changed }) => due((run) => {
    const mine = changed.includes(run.id);
    run.ended ||= mine && run.live;
    return mine || !changed.length;
  })));
  onClose(feed.on("state", ({ state }) => state === "open" && due(() => true)));
  if (feed.count !== heard) due(() => true);
}
