"""The style of reports: light and dark by the reader's setting, narrow and wide, on a screen and on paper."""

# Colours of runs are Okabe and Ito's, on dark ground lighter where they would be lost; lines and markers tell runs
# apart without them.
CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --page: #ffffff; --card: #f6f8fa;
        --line: #d6dbe1; --accent: #0072b2; --warn: #9a4b00; --warn-card: #fff4e5;
        --c0: #0072b2; --c1: #d55e00; --c2: #00845f; --c3: #b4568a; --c4: #b87b00; --c5: #2f8fc4; --c6: #7a6fc9;
        --c7: #8c6d31; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #a0a8b2; --page: #15181c; --card: #1e2227; --line: #363c44;
          --accent: #56b4e9; --warn: #f0b060; --warn-card: #33270f;
          --c0: #4a9fe0; --c1: #f07f33; --c2: #21bd8e; --c3: #dd90bb; --c4: #eeb33c; --c5: #8fd0f5; --c6: #a79df0;
          --c7: #c9a663; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 2.5rem 1.25rem 3rem; overflow-wrap: anywhere; }
header { border-bottom: 3px solid var(--accent); padding-bottom: .9rem; margin-bottom: 1.4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .7rem; }
p { max-width: 76ch; margin: .6rem 0; }
.by { color: var(--soft); margin: 0; }
.headline { font-size: 1.1rem; line-height: 1.5; max-width: 74ch; }
.warning { background: var(--warn-card); color: var(--warn); border-left: 4px solid var(--warn);
           padding: .6rem .9rem; border-radius: 4px; max-width: none; }
.verdict { border-left: 4px solid var(--accent); padding: .1rem .9rem; max-width: none; }
.scroll { overflow-x: auto; }
.scroll:focus-visible, .plot:focus-visible, button:focus-visible, summary:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .5rem .4rem; text-align: right; white-space: nowrap; overflow-wrap: normal;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; vertical-align: bottom;
        white-space: normal; }
th:first-child, td:first-child { text-align: left; font-weight: 600; white-space: normal;
  min-width: 8.5rem; }
.results th:first-child, .results td:first-child { position: sticky; left: 0; background: var(--page);
  max-width: 16rem; overflow-wrap: anywhere; }
.results td { vertical-align: top; } .results .words { white-space: normal; min-width: 7.5rem; }
.results td:nth-child(n + 2) { padding-left: .9rem; }
abbr { text-decoration: underline dotted; text-underline-offset: .2em; cursor: help; }
td small { color: var(--soft); font-weight: 400; } td details { margin: 0; font-size: .8rem; }
td summary { font-weight: 400; color: var(--soft); }
.note { color: var(--soft); font-size: .88rem; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 1.1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
        padding: 1rem; min-width: 0; }
figure h3 { font-size: 1rem; margin: 0 0 .5rem; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .6rem; }
figure.chart { position: relative; max-width: 640px; padding: .8rem; }
.plot { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
        touch-action: pan-y; }
.plot text { fill: var(--soft); } .plot .x { text-anchor: middle; } .plot .y { text-anchor: end; }
.plot .name { fill: var(--ink); }
.grid { stroke: var(--line); stroke-width: .7; } .zero { stroke: var(--soft); stroke-width: 1.2; }
.axis { stroke: var(--soft); fill: none; }
.line { fill: none; stroke: var(--c); stroke-width: 1.9; stroke-linejoin: round; }
.bars { fill: none; stroke: var(--c); stroke-width: 1.4; }
.marks, .cursor circle { fill: var(--c); } .band { fill: var(--c); opacity: .17; }
text.guide { text-anchor: end; } path.guide { stroke: var(--soft); stroke-dasharray: 2 3; }
.cursor path { stroke: var(--soft); stroke-width: .8; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.plot .off { display: none; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .15rem .6rem; margin: 0 0 .5rem; padding: 0;
          font-size: .85rem; }
.legend li, .legend button { display: flex; align-items: center; gap: .4rem; text-align: left; }
.legend .swatch { width: 34px; height: 14px; flex: none; }
button { font: inherit; color: inherit; background: none; border: 1px solid transparent; border-radius: 5px;
         padding: .1rem .3rem; cursor: pointer; }
button:hover { border-color: var(--soft); } button.every { border-color: var(--line); padding: .1rem .6rem; }
.legend .off button { opacity: .55; text-decoration: line-through; }
.tip { position: absolute; left: .4rem; right: .4rem; z-index: 1; padding: .4rem .6rem; border-radius: 6px;
       pointer-events: none; font-size: .82rem; line-height: 1.35; background: var(--page);
       border: 1px solid var(--line); box-shadow: 0 2px 8px #0003; }
.tip ul { list-style: none; margin: 0; padding: 0; columns: 13rem; }
.tip li { border-left: 4px solid var(--c); padding-left: .4rem; margin-top: .2rem; break-inside: avoid; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; margin: .6rem 0; }
dt { font-weight: 600; } dd { margin: 0; max-width: 76ch; }
.privacy, .terms { grid-template-columns: minmax(8.5rem, 15rem) 1fr; gap: .6rem 1rem; }
.terms { font-size: .9rem; }
@media (max-width: 640px) {
  main { padding: 1.2rem 1rem 2rem; } h1 { font-size: 1.45rem; }
  .privacy, .terms { grid-template-columns: minmax(0, 1fr); gap: .15rem; }
  .privacy dd, .terms dd { margin-bottom: .9rem; }
  .results th:first-child, .results td:first-child { max-width: 9.5rem; font-size: .85rem; }
}
footer { margin-top: 2.6rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--soft);
        font-size: .88rem; }
code { font: .92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--card);
       border: 1px solid var(--line); border-radius: 4px; padding: .05rem .35rem; overflow-wrap: anywhere; }
@media print {
  :root { --page: #fff; --ink: #000; } figure { break-inside: avoid; } .scroll { overflow: visible; }
  .hint, .tip { display: none; } main { max-width: none; padding: 0; }
  table { font-size: .7rem; } th, td { white-space: normal; padding: .25rem; }
  .results td:nth-child(n) { min-width: 0; padding-left: .3rem; }
}
"""
