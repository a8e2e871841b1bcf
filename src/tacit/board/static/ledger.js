/** A ledger: what was released in which rounds, for which class of records, and what is left. */

import { get, part } from "./api.js";
import { atMost, choice, fill, h, put } from "./dom.js";
import { count, number, percent, some } from "./format.js";
import { badge } from "./glyphs.js";
import { look } from "./looks.js";
import { Plot, Shared } from "./plot.js";
import { csv, fileName, save } from "./saving.js";
import { glossary } from "./words.js";

const ROWS = 20;
const CHAINS = {
  verified: "Each entry holds the digest of the one before it, and all of them fit: no entry was changed, taken out or put in.",
  broken: "An entry does not fit the one before it: the book was changed, or its file is damaged. What it says of the budget is not to be believed until that is found out.",
  none: "This book has no chain: a simulation notes what it spent, and a peer writes entries with digests.",
};

/** Return a bar of a budget, with words; full and nearly full are said, not only coloured. Where each record pays for itself alone, nothing runs out. */
export function meter({ name, unit, limit, spent, left, runs_out: runsOut = true }, named = true) {
  const title = named ? h("span", {}, name) : null;
  if (limit === null || limit === undefined) return h("div", { class: "budget" }, h("p", {}, title, h("span", {}, `${unit} ${number(spent, 3)} spent, no limit`)));
  if (runsOut === false) return h("div", { class: "budget" }, h("p", {}, title, h("span", {}, `${unit} ${number(spent, 3)} per record, of ${number(limit, 3)} allowed; new records bring their own`)));
  const share = limit > 0 ? spent / limit : 1, tone = share >= 1 ? "full" : share >= 0.9 ? "near" : null;
  return h("div", { class: "budget" }, h("p", {}, title, h("span", {}, `${number(left, 3)} of ${number(limit, 3)} ${unit} left${tone === "full" ? " · used up" : tone ? " · nearly used up" : ""}`)),
    h("progress", { max: "1", value: Math.min(1, share), class: tone, "aria-label": `${name}: ${percent(share)} of the budget is spent` }));
}

/** What the figure of a peer's ledger means, in words; that of a run says so itself. */
function meaning({ unit, classes }) {
  const spent = Math.max(0, ...classes.map((each) => each.spent ?? 0)), factor = Math.exp(spent);
  if (unit !== "epsilon" || !spent) return null;
  return h("p", { class: "by" }, `To whoever sees all that this peer sent, any outcome is ${factor < 1000 ? `at most ${factor.toPrecision(3)}` : "possibly more than a thousand"} times as likely with the record that has lost most as without it, but for the chance delta where the budget has one.`);
}

const times = (releases) => releases.reduce((sum, release) => sum + (release.times ?? release.rounds ?? 1), 0);

/** What a class's releases have cost by each round, as stairs: their sum, or where each record pays for itself alone the dearest one. */
function stairs({ name, runs_out: runsOut = true }, releases, at) {
  let sum = 0;
  const rounds = [], mean = [];
  for (const each of releases.filter((release) => release.class === name)) {
    sum = runsOut ? sum + each.cost * (each.times ?? 1) : Math.max(sum, each.cost);
    if (rounds.at(-1) === each.round) mean[mean.length - 1] = sum;
    else { rounds.push(each.round); mean.push(sum); }
  }
  return { id: name, label: name, look: look(at), rounds, mean, low: null, high: null, step: true };
}

/** Fill `place` with the ledger that the server gives at `path`, and keep it up to date. */
export async function ledger(place, path, { feed, alive, onClose }, source = "ledger") {
  let member = "", book = await get(path);
  if (!alive()) return;
  const fresh = () => get(member ? `${path}?member=${part(member)}` : path);
  const shared = new Shared(), spent = new Plot({ title: "Spent over the rounds", unit: book.unit, caption: "The charges of each class, added up; of records that are released once, those of the dearest. A dashed line is a limit: a release that would cross it is refused.", shared, source });
  onClose(() => spent.close());
  const whose = h("div", { class: "controls" }), top = h("div"), classes = h("div", { class: "classes" }), last = h("div");
  put(place, h("h2", { class: path.startsWith("runs/") ? "unseen" : null }, "Ledger"), whose, top, classes, h("div", { class: "both" }, spent.element, last), glossary("ledger", "record class", "epsilon", "delta", "round"));

  if (book.members) { // of a swarm, each with a book of its own
    put(whose, choice("Member", book.members.map((each) => [each, each]), book.member, async (value) => {
      member = value;
      const now = await fresh();
      if (alive() && member === value) { book = now; show(); }
    }));
  }

  function show() {
    const { unit, releases } = book;
    fill(top, h("div", { class: "rollcall" }, badge(book.chain), h("span", { class: "by" }, CHAINS[book.chain])), book.words ? h("p", { class: "verdict" }, book.words.replace(/^./, (first) => first.toUpperCase())) : null, path.startsWith("peers/") || book.members ? meaning(book) : null);
    fill(classes, book.classes.map((each) => h("section", { class: "class", "aria-label": each.name }, h("h3", {}, each.name),
      h("div", { class: "left" }, each.limit === null || each.runs_out === false ? `${number(each.spent)} spent` : `${number(each.left)} left`),
      each.limit === null ? h("p", { class: "by" }, "no limit was set") : meter({ unit, ...each }, false), h("p", { class: "by" }, `${some(times(releases.filter((release) => release.class === each.name)), "release")}, ${each.unit ?? unit} ${number(each.spent)} ${each.runs_out === false ? "per record" : "spent"}`))));
    spent.set(book.classes.map((each, k) => stairs(each, releases, k)).filter((line) => line.rounds.length),
      book.classes.filter((each) => each.limit !== null && each.spent > 0.25 * each.limit).map((each) => ({ value: each.limit, label: `limit of ${each.name}` })));
    spent.element.hidden = !releases.length;
    fill(last, releases.length ? [h("h2", {}, "The last releases"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The last releases" }, h("table", {},
      h("caption", { class: "unseen" }, "The last releases, newest first"), h("thead", {}, h("tr", {}, ["round", "class", `cost (${unit})`].map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, releases.slice(-ROWS).reverse().map((each) => h("tr", {}, h("td", {}, each.rounds > 1 ? `${count(each.round - each.rounds + 1)} to ${count(each.round)}` : count(each.round)), h("td", {}, each.class), h("td", {}, number(each.cost)))))))]
      : h("p", { class: "empty" }, "Nothing has been released yet."),
    releases.length ? h("p", { class: "downloads" }, `${some(times(releases), "release")} in all. `, h("button", { type: "button", class: "small", on: { click: () =>
      save(`${fileName(source)}-releases.csv`, "text/csv", csv([["round", "class", `cost (${unit})`], ...releases.map((each) => [each.round, each.class, each.cost])])) } }, "Download all as CSV")) : null);
  }
  show();
  const again = atMost(3000, async () => {
    try {
      const now = await fresh();
      if (alive()) { book = now; show(); }
    } catch { /* the page says that the connection is lost */ }
  });
  const mine = path.startsWith("runs/") ? (id) => path === `runs/${encodeURIComponent(id)}/ledger` : () => false;
  onClose(feed.on("progress", ({ id }) => mine(id) && again()));
  if (path.startsWith("peers/")) onClose(feed.on("peers", again));
}
