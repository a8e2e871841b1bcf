"""Append made-up patients to a hospital's CSV file, as its own system would: python patients.py FILE ROWS SEED"""

import csv
import math
import random
import sys
from pathlib import Path

FEATURES = 6
EFFECT = (1.5, -2.0, 1.0, 0.5, -1.0, 0.0)


def patient(chance):
    """Return six standardised measurements and whether the patient was admitted again."""
    values = [chance.gauss(0, 1) for _ in range(FEATURES)]
    score = sum(e * v for e, v in zip(EFFECT, values, strict=True))
    return [*(f"{v:.6f}" for v in values), int(chance.random() < 1 / (1 + math.exp(-2 * score)))]


def main(file, rows, seed):
    """Write the rows, with a header if the file is new."""
    chance, path = random.Random(int(seed)), Path(file)
    new = not path.exists()
    with path.open("a", newline="") as out:
        writer = csv.writer(out)
        if new:
            writer.writerow([*(f"x{k}" for k in range(FEATURES)), "readmitted"])
        writer.writerows(patient(chance) for _ in range(int(rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
