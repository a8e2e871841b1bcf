/** The page: which view the address names, the connection, light and dark. */

import { Refused } from "./api.js";
import { announce, fill, h, say } from "./dom.js";
import { Feed } from "./feed.js";
import { clock } from "./format.js";
import { glyph, note } from "./glyphs.js";

/** First word of a hash -> the module of a view, its function, and the entry of the navigation that it belongs to. */
const VIEWS = {
  runs: [() => import("./runs.js"), "runs"],
  run: [() => import("./run.js"), "runs"],
  compare: [() => import("./compare.js"), "runs"],
  peers: [() => import("./peers.js"), "peers"],
};
const THEMES = { system: "as the system has it", light: "always light", dark: "always dark" };

const main = document.getElementById("main"), feed = new Feed();
let closing = () => {}, turn = 0;

/** Show what the address names: #/run/ID/graph is the view "run" of ["ID", "graph"]. */
async function show(first = false) {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").map(decodeURIComponent);
  const [load, entry] = VIEWS[name] ?? VIEWS.runs, mine = ++turn;
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    if (link.dataset.view === entry) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  closing();
  closing = () => {};
  const stops = [];
  const place = h("div", { class: "view" });
  fill(main, place);
  main.setAttribute("aria-busy", "true");
  const context = { place, feed, rest, alive: () => mine === turn, onClose: (stop) => stops.push(stop) };
  closing = () => stops.forEach((stop) => stop());
  try {
    await (await load()).view(context);
  } catch (fault) {
    if (mine !== turn) return;
    if (!(fault instanceof Refused)) console.error(fault);
    fill(place, h("h1", { tabindex: "-1" }, "This cannot be shown"), refused(fault), h("p", {}, h("a", { href: "#/runs" }, "All runs")));
  }
  if (mine !== turn) return;
  main.removeAttribute("aria-busy");
  const heading = main.querySelector("h1");
  document.title = `${heading?.textContent ?? "Runs"} · tacit board`;
  if (!first) heading?.focus();
  scrollTo(0, 0);
}

const refused = (fault) => (fault.status === 401
  ? note("warn", "The board needs its token: open the address that ", h("code", {}, "tacit board"), " printed.")
  : note("bad", fault.message));

/** The state of the connection: beside the navigation, and a line across the page while it is lost. */
function connection({ state, before }) {
  const words = { connecting: "connecting", open: "connected", lost: "connection lost" };
  const place = document.getElementById("connection"), lost = document.getElementById("lost");
  place.dataset.state = state;
  fill(place, glyph({ connecting: "late", open: "live", lost: "failed" }[state]), h("span", {}, words[state]));
  lost.hidden = state !== "lost";
  if (state === "lost") say(lost, `Connection lost at ${clock(feed.since)}: what you see is from then. Trying again by itself; if it stays so, see whether tacit board still runs.`);
  if (state === "open" && before === "lost") announce("Connected again; what you see is up to date.");
}

/** The switch of light and dark; the reader's choice is kept in this browser. */
function theme() {
  const button = document.getElementById("theme"), names = Object.keys(THEMES);
  const show = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    fill(button, h("span", { "aria-hidden": "true" }, { system: "◐", light: "○", dark: "●" }[name]), name === "system" ? "auto" : name, h("span", { class: "unseen" }, `: light or dark ${THEMES[name]}, press to change`));
    dispatchEvent(new Event("theme"));
  };
  let now = "system";
  try {
    now = names.find((name) => name === localStorage.getItem("theme")) ?? "system";
  } catch { /* a browser that keeps nothing */ }
  button.addEventListener("click", () => {
    now = names[(names.indexOf(now) + 1) % names.length];
    try {
      localStorage.setItem("theme", now);
    } catch { /* as above */ }
    show(now);
    announce(`Light or dark: ${THEMES[now]}`);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));
  show(now);
}

document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
theme();
connection({ state: "connecting" });
feed.on("state", connection);
feed.start();
addEventListener("hashchange", () => show());
show(true);
