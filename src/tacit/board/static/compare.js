/** Several runs in the same plots, their figures, and the settings in which they differ. */

import { get, part } from "./api.js";
import { plots } from "./curves.js";
import { h, put, table } from "./dom.js";
import { figure, setting, some } from "./format.js";
import { badge } from "./glyphs.js";
import { look, swatch } from "./looks.js";
import { glossary, title } from "./words.js";

/** Labels that tell runs apart: of the same label, with what is different in their places. */
function labels(runs) {
  const plain = runs.map((run) => run.label);
  const fuller = runs.map((run, k) => (plain.indexOf(run.label) === plain.lastIndexOf(run.label) ? plain[k] : `${run.label} (${run.experiment})`));
  return runs.map((run, k) => (fuller.indexOf(fuller[k]) === fuller.lastIndexOf(fuller[k]) ? fuller[k] : `${run.label} (${run.path})`));
}

/** Show the runs that the address names. */
export async function view(context) {
  const { place, rest: [named = ""], alive } = context, ids = named.split(",").filter(Boolean);
  if (ids.length < 2) {
    put(place, h("h1", { tabindex: "-1" }, "Compare runs"), h("div", { class: "empty" }, h("p", {}, "Tick two runs or more in the list, then press Compare."), h("p", {}, h("a", { href: "#/runs" }, "All runs"))));
    return;
  }
  const [differing, ...runs] = await Promise.all([get(`compare?ids=${ids.map(part).join(",")}`), ...ids.map((id) => get(`runs/${part(id)}`))]);
  if (!alive()) return;
  const names = labels(runs), heads = runs.map((run, k) => [swatch(look(k)), h("a", { href: `#/run/${part(run.id)}` }, names[k])]);
  const curves = h("div");
  put(place, h("p", { class: "trail" }, h("a", { href: "#/runs" }, "Runs"), " / comparison"), h("h1", { tabindex: "-1" }, `${some(runs.length, "run")} compared`),
    curves, h("h2", {}, "Figures"), table("Figures of each run", ["figure", ...heads],
      [["state", ...runs.map((run) => badge(run.state))], ...differing.figures.map(({ name, values }) => [title(name), ...values.map((value) => figure(name, value))])], { class: "side" }),
    h("h2", {}, "Settings that differ"), differing.settings.length ? table("Settings in which the runs differ", ["setting", ...names],
      differing.settings.map(({ key, values }) => [h("code", {}, key), ...values.map(setting)]), { class: "side" }) : h("p", {}, "None: these runs have the same settings."),
    glossary("round", "regret", "disagreement", "band", "epsilon"));
  const scores = new Set(runs.map((run) => run.score_name ?? "accuracy"));
  await plots(curves, runs.map((run, k) => ({ id: run.id, label: names[k], look: look(k), live: run.state === "live" })),
    { ...context, score: scores.size === 1 ? [...scores][0] : null, source: "comparison" });
}
