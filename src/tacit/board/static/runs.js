/** Runs: a list with live ones first, filters, and boxes to tick for a comparison. */

import { get, part } from "./api.js";
import { atMost, choice, command, fill, h, put, say } from "./dom.js";
import { ago, count, duration, number, percent, some } from "./format.js";
import { badge } from "./glyphs.js";
import { glossary } from "./words.js";

const ORDERS = {
  newest: ["live, then newest", (a, b) => (b.started ?? b.updated ?? 0) - (a.started ?? a.updated ?? 0)],
  name: ["name", (a, b) => a.experiment.localeCompare(b.experiment) || a.label.localeCompare(b.label)],
  loss: ["lowest loss", (a, b) => (a.figures.loss ?? Infinity) - (b.figures.loss ?? Infinity)],
  accuracy: ["highest score", (a, b) => (b.figures.accuracy ?? -Infinity) - (a.figures.accuracy ?? -Infinity)],
};
const MOST = 8;
/** Filters and ticks outlive a visit to a run. */
const kept = { text: "", state: "", kind: "", method: "", order: "newest", ticked: new Set() };

/** Return a bar of how far a run is, with words. */
export function progress(run) {
  const share = run.rounds ? run.done / run.rounds : null;
  const left = run.state === "live" && run.rate && run.rounds ? (run.rounds - run.done) / run.rate : null;
  const what = run.kind === "sweep" ? "setting" : "round", rounds = run.rounds ? `${count(run.done)} of ${count(run.rounds)} ${what}s` : some(run.done, what);
  return h("div", { class: "progress" },
    share === null ? null : h("progress", { max: "1", value: share, "aria-label": `Progress of ${run.label}` }),
    h("small", {}, rounds, share !== null && run.state !== "done" ? ` · ${percent(share)}` : "", left !== null ? ` · ${duration(left)} left` : ""));
}

const cell = (head, attributes, ...children) => h("td", { "data-head": head, ...attributes }, ...children);

function row(run, ticked, changed) {
  const figures = run.figures;
  return h("tr", { "data-id": run.id, class: run.state },
    h("td", { class: "box" }, h("input", { type: "checkbox", "aria-label": `Compare ${run.label} of ${run.experiment}`, is: { checked: ticked },
      on: { change: (event) => changed(event.target) } })),
    h("th", { scope: "row" }, h("a", { href: `#/run/${part(run.id)}` }, run.label), h("small", {}, run.experiment, run.kind === "run" ? "" : ` · ${run.kind}`)),
    cell("state", {}, badge(run.state)), cell("progress", {}, progress(run)), cell("loss", { class: "n" }, number(figures.loss)),
    cell("score", { class: "n" }, number(figures.accuracy)), cell("privacy", { class: "n" }, run.private ? `eps ${number(figures.epsilon, 3)}` : "not private"),
    cell("agents", { class: "n" }, count(run.agents)), cell("changed", { class: "n" }, run.state === "live" ? "now" : ago(run.updated)));
}

function fits(run, words) {
  const text = `${run.label} ${run.experiment} ${run.algorithm} ${run.path}`.toLowerCase();
  return words.every((word) => text.includes(word)) && (!kept.state || run.state === kept.state) && (!kept.kind || run.kind === kept.kind)
    && (!kept.method || run.algorithm === kept.method);
}

const empty = () => h("div", { class: "empty" }, h("h2", {}, "No runs here yet"),
  h("p", {}, "The board shows every run below its folder, also while it is going on. In another terminal, in this folder:"),
  command("tacit demo"), h("p", {}, "runs a method against its baselines in a minute. With a table of your own, or a made-up one:"), command("tacit init"),
  h("p", {}, "To look at another folder: ", h("code", {}, "tacit board FOLDER"), "."));

/** Show the list, and keep it up to date. */
export async function view({ place, feed, alive, onClose }) {
  const heard = feed.count;
  let runs = (await get("runs")).runs;
  if (!alive()) return;
  const rows = new Map(), body = h("tbody"), found = h("p", { class: "by", role: "status" }), filters = h("form", { class: "filters", role: "search", "aria-label": "Filter runs" });
  const tray = h("div", { class: "tray", role: "region", "aria-label": "Comparison", hidden: true });
  const table = h("table", { class: "runs" }, h("caption", { class: "unseen" }, "Runs, live ones first"), h("thead", {}, h("tr", {},
    h("td", {}), ["run", "state", "progress", "loss", "score", "privacy", "agents", "changed"].map((head) => h("th", { scope: "col" }, head)))), body);
  const none = h("div");
  put(place, h("h1", { tabindex: "-1" }, "Runs"), found, filters, none, table, tray, glossary("round", "agent, peer", "epsilon"));

  function ticked(box) {
    const { id } = box.closest("tr").dataset;
    if (!box.checked) kept.ticked.delete(id);
    else if (kept.ticked.size < MOST) kept.ticked.add(id);
    else box.checked = false;
    showTray();
  }

  function showTray() {
    const known = [...kept.ticked].filter((id) => runs.some((run) => run.id === id));
    tray.hidden = !known.length;
    fill(tray, h("span", { role: "status" }, `${some(known.length, "run")} ticked`, known.length === MOST ? " (that is the most)" : "", known.length === 1 ? ": tick another one to compare" : ""),
      known.length > 1 ? h("a", { class: "button main", href: `#/compare/${known.map(part).join(",")}` }, `Compare ${known.length} runs`) : null,
      h("button", { type: "button", on: { click: () => { kept.ticked.clear(); show(); } } }, "Clear"));
  }

  /** Put rows in order; only rows of runs that changed are made again, and focus stays where it is. */
  function show() {
    const words = kept.text.toLowerCase().split(/\s+/).filter(Boolean), order = ORDERS[kept.order][1];
    const shown = runs.filter((run) => fits(run, words)).sort((a, b) => (b.state === "live") - (a.state === "live") || order(a, b));
    const wanted = shown.map((run) => {
      const before = rows.get(run.id), on = kept.ticked.has(run.id);
      if (before && before.run === run) before.element.querySelector("input").checked = on;
      else {
        const element = row(run, on, ticked), focused = before?.element.contains(document.activeElement) ? document.activeElement.tagName : null;
        before?.element.replaceWith(element);
        if (focused) element.querySelector(focused.toLowerCase())?.focus();
        rows.set(run.id, { run, element });
      }
      return rows.get(run.id).element;
    });
    const now = [...body.children];
    if (now.length !== wanted.length || now.some((element, k) => element !== wanted[k])) body.replaceChildren(...wanted);
    table.hidden = !shown.length;
    const live = runs.filter((run) => run.state === "live").length;
    say(found, `${shown.length === runs.length ? some(runs.length, "run") : `${count(shown.length)} of ${some(runs.length, "run")}`}${live ? `, ${live} live` : ""}`);
    filters.hidden = !runs.length;
    fill(none, runs.length ? shown.length ? null : h("div", { class: "empty" }, h("p", {}, "No run fits these filters."),
      h("button", { type: "button", on: { click: () => { Object.assign(kept, { text: "", state: "", kind: "", method: "" }); setFilters(); show(); } } }, "Show all runs")) : empty());
    showTray();
  }

  function setFilters() {
    const values = (key) => [["", "all"], ...[...new Set(runs.map((run) => run[key]))].sort().map((each) => [each, each.replaceAll("_", " ")])];
    const by = (label, key, name) => choice(label, values(key), kept[name], (value) => { kept[name] = value; show(); });
    fill(filters, h("label", { class: "field wide" }, h("span", {}, "Find"), h("input", { type: "search", placeholder: "name, method, folder", is: { value: kept.text },
      on: { input: (event) => { kept.text = event.target.value; show(); } } })), by("State", "state", "state"), by("Kind", "kind", "kind"), by("Method", "algorithm", "method"),
    choice("Order", Object.entries(ORDERS).map(([name, [words]]) => [name, words]), kept.order, (value) => { kept.order = value; show(); }));
  }

  filters.addEventListener("submit", (event) => event.preventDefault());
  setFilters();
  show();

  const showSoon = atMost(500, () => alive() && show());
  const again = atMost(1000, async () => {
    const before = JSON.stringify([...new Set(runs.map((run) => `${run.state}|${run.kind}|${run.algorithm}`))].sort());
    const old = new Map(runs.map((run) => [run.id, run]));
    try {
      runs = (await get("runs")).runs.map((run) => (JSON.stringify(old.get(run.id)) === JSON.stringify(run) ? old.get(run.id) : run));
    } catch { return; }
    if (!alive()) return;
    if (before !== JSON.stringify([...new Set(runs.map((run) => `${run.state}|${run.kind}|${run.algorithm}`))].sort()) && !filters.contains(document.activeElement)) setFilters();
    show();
  });
  onClose(feed.on("runs", again));
  onClose(feed.on("state", ({ state }) => state === "open" && again()));
  onClose(feed.on("progress", ({ id, done, rate, figures }) => {
    const at = runs.findIndex((run) => run.id === id);
    if (at < 0) { again(); return; }
    runs = runs.with(at, { ...runs[at], done, rate, figures: { ...runs[at].figures, ...figures }, updated: Date.now() / 1000 });
    showSoon();
  }));
  if (feed.count !== heard) again();
}
