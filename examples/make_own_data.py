"""Write examples/own-data.csv: made-up visits to six clinics, as a spreadsheet would hold them.

Columns of every sort, gaps included, one owner per row, and clinics of very different sizes. Nobody prepared it for
learning; examples/own-data.toml runs on it as it is. Run with: python examples/make_own_data.py
"""

from __future__ import annotations

import csv
import datetime
import sys
from pathlib import Path

import numpy as np

CLINICS = {"Arles": 90, "Bremen": 60, "Cork": 45, "Delft": 30, "Espoo": 20, "Faro": 12}
WARDS = ("general", "heart", "surgery")
FIRST_DAY = datetime.date(2024, 1, 1)


def rows(seed: int = 0) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    visits: list[dict[str, object]] = []
    for clinic, count in CLINICS.items():
        for _ in range(count):
            age, days, ward = rng.integers(20, 95), rng.gamma(2.0, 2.5), rng.choice(WARDS)
            smoker = rng.random() < 0.3
            risk = 0.06 * (age - 60) + 0.25 * (days - 5) + 1.2 * smoker + {"heart": 1.0}.get(ward, -0.3)
            visits.append(
                {
                    "visit": f"V{rng.integers(10**5):05d}",
                    "clinic": clinic,
                    "admitted": FIRST_DAY + datetime.timedelta(days=int(rng.integers(360))),
                    "age": int(age),
                    "days": "" if rng.random() < 0.08 else round(float(days), 1),
                    "ward": "" if rng.random() < 0.05 else str(ward),
                    "smoker": "true" if smoker else "false",
                    "readmitted": "yes" if rng.random() < 1 / (1 + np.exp(-risk)) else "no",
                }
            )
    return [visits[k] for k in rng.permutation(len(visits))]


def write(path: Path) -> None:
    visits = rows()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(visits[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(visits)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("own-data.csv"))
