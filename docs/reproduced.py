"""Puts what `tacit reproduce --all` found into the manual: `python docs/reproduced.py runs/gallery`.

The table of headlines goes between two comments of docs/reproduction.md; every claim is docs/claims.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
BEGIN, END = "<!-- headlines: made by docs/reproduced.py -->", "<!-- end of headlines -->"


def main(gallery: Path) -> None:
    """Replace the generated parts by those of a gallery."""
    page = HERE / "reproduction.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    table = (gallery / "headlines.md").read_text(encoding="utf-8")
    page.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}", encoding="utf-8")
    (HERE / "claims.md").write_bytes((gallery / "claims.md").read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
