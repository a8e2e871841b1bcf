"""The style of the gallery, beside that of reports and of studies: cells of verdicts, the filter, and small figures."""

CSS = """
a { color: var(--accent); } .total { font-size: 1.15rem; max-width: none; }
section { border-top: 1px solid var(--line); margin-top: 2.2rem; padding-top: .4rem; }
.front { table-layout: fixed; border-spacing: 4px; border-collapse: separate; margin: 1rem 0; }
.front th, .front td { border: 0; text-align: left; vertical-align: top; padding: 0; white-space: normal; }
.front th { width: 10.5rem; min-width: 0; padding: .3rem .4rem .3rem 0; color: var(--ink); }
.front th small { display: block; color: var(--soft); font-weight: 400; line-height: 1.3; }
.front td { min-width: 0; height: 1px; font-weight: 400; }
.front td > :first-child { display: block; height: 100%; min-height: 5.2rem; padding: .35rem .45rem; color: var(--ink);
  text-decoration: none; border-radius: 6px; border-left: 5px solid var(--v); background: var(--card);
  background: color-mix(in srgb, var(--v) 15%, var(--page)); font-size: .76rem; line-height: 1.3; }
.front td a:hover, .front td a:focus-visible { outline: 2px solid var(--v); }
.front b { display: block; color: var(--v); font-size: .8rem; margin-bottom: .15rem; }
.front span.said { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 4; overflow: hidden; }
.front td.out { opacity: .22; } article.result.out { display: none; }
.filter { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; position: sticky; top: 0; z-index: 2;
  background: var(--page); padding: .5rem 0; margin: 1rem 0 0; max-width: none; }
.filter[hidden] { display: none; } .filter output { color: var(--soft); font-size: .9rem; }
.filter button { border: 1.5px solid var(--v, var(--line)); border-radius: 99px; padding: .15rem .75rem; }
.filter button[aria-pressed=true] { background: color-mix(in srgb, var(--v, var(--soft)) 22%, var(--page));
  box-shadow: inset 0 0 0 1px var(--v, var(--soft)); font-weight: 700; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 370px), 1fr)); gap: 1rem;
  margin-top: .8rem; }
.cards .result { margin: 0; display: flex; flex-direction: column; } .cards .result h3 { font-size: .98rem; }
.cards .versus { grid-template-columns: 1fr; font-size: .88rem; } .cards .result > figure { margin: 0 0 .6rem; }
.cards .more { margin: auto 0 0; font-size: .88rem; } .cards figure h3:empty { display: none; }
.meaning dd { max-width: 84ch; } .meaning dt { color: var(--v); }
.result, section { scroll-margin-top: 3.5rem; }
@media (max-width: 900px) {
  .front, .front tbody, .front th { display: block; width: auto; }
  .front tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .35rem;
    margin-bottom: .9rem; } .front th { grid-column: 1 / -1; } .front td { display: block; height: auto; }
  .front td > :first-child { min-height: 0; } .front td:empty { display: none; }
}
@media (max-width: 640px) { .filter { position: static; } }
@media print { .filter { display: none; } }
"""
