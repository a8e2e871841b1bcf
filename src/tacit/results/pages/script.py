"""The script of a report: legends become switches, and plots tell their values.

It writes text only, asks for nothing, and the page is whole without it. The page's policy has its hash, so that a
browser runs this and nothing else.
"""

SCRIPT = r"""
"use strict";
(() => {
  const off = new Set();
  const svgs = [...document.querySelectorAll("svg.plot")];
  const made = (name, kind, ...inside) => {
    const element = document.createElement(name);
    element.className = kind;
    element.append(...inside);
    return element;
  };
  const drawn = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  function show() {
    for (const part of document.querySelectorAll("[data-run]")) {
      const hidden = off.has(part.dataset.run);
      part.classList.toggle("off", hidden);
      part.querySelector("button")?.setAttribute("aria-pressed", String(!hidden));
    }
    every.textContent = off.size ? "Switch all lines on" : "Switch all lines off";
  }
  const every = made("button", "every");
  every.type = "button";
  every.addEventListener("click", () => {
    const runs = new Set([...document.querySelectorAll(".legend [data-run]")].map((item) => item.dataset.run));
    if (off.size) off.clear(); else runs.forEach((run) => off.add(run));
    show();
  });
  for (const item of document.querySelectorAll(".legend [data-run]")) {
    const button = made("button", "", ...item.childNodes);
    button.type = "button";
    button.addEventListener("click", () => {
      const run = item.dataset.run;
      if (!off.delete(run)) off.add(run);
      show();
    });
    item.append(button);
  }
  for (const hint of document.querySelectorAll(".hint")) {
    hint.hidden = false;
    if (document.querySelector(".legend button")) hint.append(" ", every);
  }
  show();

  for (const svg of svgs) {
    const figure = svg.parentElement, tip = made("div", "tip"), cursor = drawn("g", {class: "cursor"});
    tip.hidden = true;
    tip.setAttribute("role", "status");
    svg.after(tip);
    svg.append(cursor);
    svg.setAttribute("tabindex", "0");
    const labels = new Map([...figure.querySelectorAll(".legend [data-run]")].map(
      (item) => [item.dataset.run, item.textContent]));
    const lines = [...svg.querySelectorAll("g[data-run]")].map((group) => {
      const path = group.querySelector(".line"), numbers = path.getAttribute("d").match(/[\d.]+/g) || [];
      const at = path.dataset.at.split("|"), is = path.dataset.is.split("|");
      const points = at.slice(0, numbers.length / 2).map(
        (text, k) => ({x: +numbers[2 * k], y: +numbers[2 * k + 1], at: text, is: is[k]}));
      return {run: group.dataset.run, level: group.classList.contains("level"), colour: group, points};
    });
    const seen = () => lines.filter((line) => !off.has(line.run) && line.points.length);
    const nearest = (points, x) => points.reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    const stops = () => {
      const moving = seen().filter((line) => !line.level);
      return [...new Set(moving.flatMap((line) => line.points.map((point) => point.x)))].sort((a, b) => a - b);
    };
    let place = null;

    function close() {
      tip.hidden = true;
      cursor.replaceChildren();
      place = null;
    }
    function tell(x) {
      const all = stops();
      if (!all.length) return close();
      place = nearest(all.map((stop) => ({x: stop})), x).x;
      const near = seen().map((line) => ({...line, point: nearest(line.points, place)}))
        .filter((line) => line.level || Math.abs(line.point.x - place) < 12)
        .sort((a, b) => a.point.y - b.point.y);
      const where = near.find((line) => !line.level && line.point.x === place).point.at;
      cursor.replaceChildren(drawn("path", {d: `M${place} 26V240`}));
      const rows = near.map((line) => {
        const {point} = line, row = made("li", line.colour.getAttribute("class"));
        if (!line.level) cursor.append(drawn("circle", {cx: point.x, cy: point.y, r: 4, class: row.className}));
        const aside = point.at === where ? "" : ` (${point.at})`;
        row.append(made("b", "", point.is), ` ${labels.get(line.run)}${aside}`);
        return row;
      });
      tip.replaceChildren(made("strong", "", `${svg.dataset.x} ${where}`), made("ul", "", ...rows));
      tip.hidden = false;
      const box = svg.getBoundingClientRect(), room = box.bottom + tip.offsetHeight <= window.innerHeight;
      tip.style.top = `${(room ? box.bottom : box.top - tip.offsetHeight) - figure.getBoundingClientRect().top}px`;
    }
    const under = (event) => {
      const box = svg.getBoundingClientRect();
      tell(((event.clientX - box.left) / box.width) * 420);
    };
    svg.addEventListener("pointermove", under);
    svg.addEventListener("pointerdown", under);
    svg.addEventListener("pointerleave", close);
    svg.addEventListener("blur", close);
    svg.addEventListener("keydown", (event) => {
      const all = stops(), now = all.indexOf(place), last = all.length - 1;
      const next = {ArrowRight: Math.min(now + 1, last), ArrowLeft: now < 0 ? last : Math.max(now - 1, 0),
        Home: 0, End: last}[event.key];
      if (event.key === "Escape") close();
      if (next === undefined || last < 0) return;
      event.preventDefault();
      tell(all[next]);
    });
  }
})();
"""
