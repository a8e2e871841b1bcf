// What is wrong with a page for those who do not see it, or not well: a list of sentences, empty where nothing is.
() => {
  const wrong = [];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true });
  const at = (element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} ${(element.textContent ?? "").trim().slice(0, 40)}`;

  // Names of controls.
  const named = (element) => [element.getAttribute("aria-label"), (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent).join(" "),
    ...[...(element.labels ?? [])].map((label) => label.textContent), element.matches("select, input") ? "" : element.innerText].some((words) => words?.trim());
  for (const control of document.querySelectorAll("a, button, select, input, summary, canvas[tabindex], svg[tabindex], [role=img], [role=region], progress, dialog")) {
    if (shown(control) && !named(control)) wrong.push(`no name: ${at(control)}`);
  }

  // Landmarks, headings, and places that are read aloud.
  for (const name of ["main", "header", "nav"]) if (!document.querySelector(`body ${name}`)) wrong.push(`no ${name}`);
  if (document.querySelectorAll("main").length !== 1) wrong.push("not one main");
  const navs = [...document.querySelectorAll("nav")].map((nav) => nav.getAttribute("aria-label"));
  if (new Set(navs).size !== navs.length || navs.includes(null)) wrong.push("navigations without names of their own");
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")].filter(shown);
  if (headings.filter((heading) => heading.tagName === "H1").length !== 1) wrong.push("not one h1");
  headings.forEach((heading, k) => {
    if (k && Number(heading.tagName[1]) > Number(headings[k - 1].tagName[1]) + 1) wrong.push(`a level is left out before ${at(heading)}`);
  });
  if (!document.querySelector("[aria-live=polite]") || !document.querySelector("[role=alert]")) wrong.push("nothing is read aloud");
  if (document.documentElement.lang !== "en" || !document.title) wrong.push("no language or title");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");
  for (const table of document.querySelectorAll("table")) if (!table.caption || !table.querySelector("th[scope=col]")) wrong.push(`a table without caption or heads: ${at(table)}`);
  for (const image of document.querySelectorAll("img")) if (!image.hasAttribute("alt")) wrong.push(`no alt: ${image.src}`);

  // Contrast of all texts with the ground that they stand on: WCAG 2, AA.
  const numbers = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([red, green, blue]) => [red, green, blue].map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)).reduce((sum, value, k) => sum + value * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const [red, green, blue, alpha = 1] = numbers(getComputedStyle(each).backgroundColor);
      if (alpha === 1 && red !== undefined) return [red, green, blue];
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !shown(element) || element.closest(".unseen, .skip, option, :disabled, title, noscript")) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ink = numbers(element.closest("svg") ? style.fill : style.color), [high, low] = [light(ink), light(ground(element))].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < (large ? 3 : 4.5)) wrong.push(`contrast ${contrast.toFixed(2)}: ${at(element)}`);
  }

  // Places to press on are not small (WCAG 2.2: 24 px), but for links within text.
  for (const button of document.querySelectorAll("button, select, input:not([type=checkbox])")) {
    const box = button.getBoundingClientRect();
    if (shown(button) && Math.min(box.width, box.height) < 24) wrong.push(`small (${box.width.toFixed(0)} x ${box.height.toFixed(0)}): ${at(button)}`);
  }
  return [...new Set(wrong)];
}
