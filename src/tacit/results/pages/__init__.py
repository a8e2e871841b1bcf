"""Parts of a report: what its plots show, how they are drawn as SVG, its style, its script and its glossary."""
