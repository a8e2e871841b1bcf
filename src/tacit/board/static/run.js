/** One run: its state, curves, graph, ledger and settings. */

import { get, part } from "./api.js";
import { atMost, fill, h, put, say, table } from "./dom.js";
import { plots } from "./curves.js";
import { duration, figure, flat, moment, number, setting, some } from "./format.js";
import { badge, note } from "./glyphs.js";
import { look } from "./looks.js";
import { progress } from "./runs.js";
import { FIGURES, glossary, title } from "./words.js";

const TABS = { "": "Curves", graph: "Graph", ledger: "Ledger", settings: "Settings" };

/** Return what a run's figures are, as large numbers with their names. */
const figures = (run) => h("dl", { class: "figures" }, Object.entries(run.figures).filter(([, value]) => value !== null && value !== undefined)
  .map(([name, value]) => h("div", { title: FIGURES[name]?.[2] }, h("dt", {}, name === "accuracy" ? title("score", run.score_name ?? "accuracy") : title(name)), h("dd", {}, figure(name, value)))));

function head(run) {
  const live = run.state === "live", by = [some(run.agents, "agent"), run.repeats > 1 ? `${run.repeats} repeats` : null, live && run.rate ? `${number(run.rate, 3)} rounds/s` : null,
    run.started ? `began ${moment(run.started)}` : null, !live && run.started && run.updated ? `took ${duration(run.updated - run.started)}` : null];
  return [h("div", {}, h("div", { class: "state" }, badge(run.state), progress(run)), h("p", { class: "by" }, by.filter(Boolean).join(" · "))), figures(run)];
}

async function curves(place, run, context) {
  await plots(place, [{ id: run.id, label: run.label, look: look(0), live: run.state === "live" }], { ...context, score: run.score_name, source: run.label });
  if (!context.alive()) return;
  put(place, h("p", { class: "downloads" }, "All curves of this run: ",
    ["csv", "json"].map((kind) => [h("a", { href: `api/runs/${part(run.id)}/data.${kind}`, download: "" }, kind.toUpperCase()), " "])),
  glossary("round", "regret", "disagreement", "band", "epsilon"));
}

function settings(place, run) {
  const rows = flat(run.settings).map(([key, value]) => [h("code", {}, key), setting(value)]);
  put(place, h("section", { "aria-label": "Settings", class: "narrow" },
    rows.length ? table("Settings of this run", ["setting", "value"], rows, { class: "settings" }) : h("p", { class: "empty" }, "This run's directory says nothing of its settings."),
    run.summary ? [h("h2", {}, "Summary"), table("Final figures", ["figure", "value"], flat(run.summary).map(([key, value]) => [key, typeof value === "number" ? number(value, 5) : setting(value)]), { class: "settings" })] : null,
    h("p", { class: "by" }, "In ", h("code", {}, run.path))));
}

/** Show a run: the part of it that the address names, and what is common to all parts. */
export async function view(context) {
  const { place, feed, rest: [id, wanted = ""], alive, onClose } = context;
  const heard = feed.count;
  let run = await get(`runs/${part(id)}`);
  if (!alive()) return;
  const top = h("div", { class: "summary" }), below = h("div", { class: "part" }), base = `#/run/${part(id)}`;
  const heading = h("h1", { tabindex: "-1" }, run.label);
  const shown = ["", ...(run.has_graph ? ["graph"] : []), ...(run.has_ledger ? ["ledger"] : []), "settings"];
  const tab = shown.includes(wanted) ? wanted : "", warnings = h("div");
  put(place, h("p", { class: "trail" }, h("a", { href: "#/runs" }, "Runs"), " / ", run.experiment), heading, top, warnings,
    h("nav", { class: "tabs", "aria-label": "Parts of this run" }, shown.map((each) => h("a", { href: each ? `${base}/${each}` : base, "aria-current": each === tab ? "page" : null }, TABS[each]))), below);

  function show() {
    say(heading, run.label);
    fill(top, head(run), run.privacy?.words && tab !== "ledger" ? h("p", { class: `words ${run.private ? "verdict" : "by"}` }, run.privacy.words.replace(/^./, (first) => first.toUpperCase())) : null);
    fill(warnings, run.fault ? note("bad", run.fault) : null, (run.warnings ?? []).map((words) => note("warn", words)));
  }
  show();
  const again = atMost(1500, async () => {
    try {
      const now = await get(`runs/${part(id)}`);
      if (alive()) { run = now; show(); }
    } catch { /* the page says that the connection is lost */ }
  });
  onClose(feed.on("progress", (event) => {
    if (event.id !== id) return;
    run = { ...run, done: event.done, rate: event.rate, figures: { ...run.figures, ...event.figures }, updated: Date.now() / 1000 };
    show();
  }));
  onClose(feed.on("runs", ({ changed }) => (!changed.length || changed.includes(id)) && again()));
  onClose(feed.on("state", ({ state }) => state === "open" && again()));
  if (feed.count !== heard) again();

  if (tab === "graph") await (await import("./graph.js")).graph(below, run, context);
  else if (tab === "ledger") await (await import("./ledger.js")).ledger(below, `runs/${part(id)}/ledger`, context);
  else if (tab === "settings") settings(below, run);
  else await curves(below, run, context);
}
