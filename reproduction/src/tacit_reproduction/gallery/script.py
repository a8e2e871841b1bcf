"""The script of the gallery: buttons that show the results of one verdict only. Without it all of them are there."""

FILTER = r"""
(() => {
  const bar = document.querySelector(".filter");
  if (!bar) return;
  const buttons = [...bar.querySelectorAll("button")], told = bar.querySelector("output");
  function show(wanted) {
    for (const part of document.querySelectorAll("[data-verdict]"))
      part.classList.toggle("out", Boolean(wanted) && part.dataset.verdict !== wanted);
    for (const section of document.querySelectorAll("section"))
      section.hidden = Boolean(wanted) && !section.querySelector("article:not(.out)");
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === wanted));
    told.textContent = `${document.querySelectorAll("article[data-verdict]:not(.out)").length} shown`;
  }
  for (const button of buttons) button.addEventListener("click", () => show(button.value));
  bar.hidden = false;
  show("");
})();
"""
