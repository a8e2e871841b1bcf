/** Elements made of attributes and text alone: markup in a name stays text. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Give an element its attributes and children.
 *
 * `on` holds listeners, `vars` custom properties (set through the object model: the content-security policy allows no
 * style attribute), `is` properties such as `value`. Attributes that are null, undefined or false are left out.
 */
function dressed(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "vars") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "is") Object.assign(element, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  put(element, ...children);
  return element;
}

/** Return an element of HTML. */
export const h = (tag, attributes, ...children) => dressed(document.createElement(tag), attributes, children);

/** Return an element of SVG. */
export const s = (tag, attributes, ...children) => dressed(document.createElementNS(SVG, tag), attributes, children);

/** Append children: elements, texts, numbers, lists of them; nothing for null, undefined and false. */
export function put(element, ...children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Make these the only children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  return put(element, ...children);
}

/** Set the text of an element, and touch nothing where it says that already. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tell those who listen to the page rather than see it. */
export function announce(text) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

/** Return a function that runs `work` at most once per `milliseconds`, the last call included. */
export function atMost(milliseconds, work) {
  let timer = null, last = -Infinity;
  return () => {
    if (timer !== null) return;
    timer = setTimeout(() => { timer = null; last = performance.now(); work(); },
      Math.max(0, last + milliseconds - performance.now()));
  };
}

/** A labelled choice. `options` are [value, words] pairs. */
export function choice(label, options, value, changed, attributes = {}) {
  const select = h("select", { on: { change: () => changed(select.value) }, ...attributes },
    options.map(([each, words]) => h("option", { value: each, selected: each === value }, words)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** A labelled tick box. */
export function tick(label, checked, changed, attributes = {}) {
  const box = h("input", { type: "checkbox", is: { checked }, on: { change: () => changed(box.checked) }, ...attributes });
  return h("label", { class: "tick" }, box, h("span", {}, label));
}

/** A command that a reader may copy. */
export function command(text) {
  const button = h("button", { type: "button", class: "small", "aria-label": `Copy ${text}`, on: { click: async () => {
    await navigator.clipboard.writeText(text);
    say(button, "copied");
    announce("Copied");
    setTimeout(() => say(button, "copy"), 2000);
  } } }, "copy");
  return h("p", { class: "command" }, h("code", {}, text), navigator.clipboard ? button : null);
}

/** A table with a caption for those who listen; `rows` are lists of cells, the first of each its header. */
export function table(caption, heads, rows, attributes = {}) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", attributes, h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, k) =>
        k ? h("td", {}, cell) : h("th", { scope: "row" }, cell)))))));
}
