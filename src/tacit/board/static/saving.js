/** Downloads: the data behind a plot, and its picture as SVG that stands alone. */

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-family", "text-anchor", "font-weight"];

/** Hand a text to the reader as a file. */
export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Return a name that any file system takes. */
export const fileName = (text) => text.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "plot";

/** Quote a cell; one that a spreadsheet would take for a formula gets an apostrophe. */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return rows as CSV. */
export const csv = (rows) => `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;

/** Return lines {label, rounds, mean, low, high} side by side, by round, with a head. */
export function columns(lines) {
  const rounds = [...new Set(lines.flatMap((line) => line.rounds))].sort((a, b) => a - b);
  const parts = lines.flatMap((line) => [["", line.mean], [" (low)", line.low], [" (high)", line.high]]
    .filter(([, values]) => values).map(([suffix, values]) => {
      const known = new Map(line.rounds.map((round, k) => [round, values[k]]));
      return { head: line.label + suffix, known };
    }));
  return [["round", ...parts.map((each) => each.head)],
    ...rounds.map((round) => [round, ...parts.map((each) => each.known.get(round) ?? null)])];
}

/** Return a picture with the page's style written into it. */
export function standing(svg, heading) {
  const copy = svg.cloneNode(true), from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
  from.forEach((element, k) => {
    const style = getComputedStyle(element);
    if (style.display === "none") { to[k].setAttribute("display", "none"); return; }
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value) to[k].setAttribute(name, value.replaceAll('"', "'"));
    }
  });
  copy.querySelectorAll(".cursor").forEach((each) => each.remove());
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ width, height, fill: getComputedStyle(svg.closest("figure") ?? document.body).backgroundColor })) {
    ground.setAttribute(name, value);
  }
  const named = document.createElementNS("http://www.w3.org/2000/svg", "title");
  named.textContent = heading;
  copy.prepend(named, ground);
  return new XMLSerializer().serializeToString(copy);
}
