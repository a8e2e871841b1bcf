"""What compressed messages take at the socket: `python -m benchmarks.compression`.

As `benchmarks.partial_sharing` does it: sender and receiver are processes of their own with mutual TLS on loopback, the
kernel counts the bytes at the sender's socket, messages go one by one and each is confirmed. A message is a model of
normal numbers (float32), rounded and written as `tacit.algorithms.compressed` does for peers; the receiver unpacks it.
That what is unpacked is what was rounded is checked first, to the bit. Prints a table and writes
benchmarks/results/compression.json. Exit code 1 if a prediction of `tacit.peer.transport.traffic` is off by more than
10 %.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.figures import write
from benchmarks.partial_sharing import CLOSE, enrol, error, form, measure, predict
from tacit.algorithms._compressors import COMPRESSORS
from tacit.core.contract import Message
from tacit.peer.transport.codec import Codec
from tacit.privacy.noise import noise_words

MODELS = (2_000, 20_000, 200_000, 1_663_370)
"""Numbers of a message; the last are those of the network of the dissertation."""
SMOKE = {"MODELS": (200,)}


def written(numbers: int, kind: str) -> bytes:
    """Return a message's content as a peer writes it, after a look at what a receiver makes of it."""
    x = jnp.asarray(np.random.default_rng(numbers).standard_normal(numbers), jnp.float32)
    sent = COMPRESSORS[kind]().rounded(x, noise_words(jax.random.key(0), 1, 0), 0) if kind else x
    codec = Codec("", form(numbers, kind))
    content = codec.pack(0, Message(np.asarray(sent), ()))
    read = codec.unpack(0, content)
    assert read is not None
    np.testing.assert_array_equal(np.asarray(read.private), np.asarray(sent))
    return bytes(content)


def main() -> int:
    """Measure, print and save."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        enrol(directory)
        titles = ("kind", "numbers", "content", "at the socket", "bits a number", "of float32", "prediction off by")
        print("  ".join(f"{title:>17}" for title in titles))
        for numbers in MODELS:
            whole = 0.0
            for kind in ("", *COMPRESSORS):
                content = written(numbers, kind)
                cost = measure(directory, numbers, kind, content)
                whole = whole or cost.out
                row = {
                    "kind": kind or "float32",
                    "numbers": numbers,
                    "content": len(content),
                    "message": cost._asdict(),
                    "bits_a_number": 8 * cost.out / numbers,
                    "of_float32": cost.out / whole,
                    "prediction_error": error(cost, predict(numbers, kind)),
                }
                rows.append(row)
                cells = (row["kind"], f"{numbers:,}", f"{len(content):,}", f"{cost.out:,.1f}")
                shares = (f"{row['bits_a_number']:.2f}", f"{row['of_float32']:.2%}", f"{row['prediction_error']:.1%}")
                print("  ".join(f"{cell:>17}" for cell in (*cells, *shares)), flush=True)
    write("compression", {"rows": rows}, "jax")
    return 0 if all(row["prediction_error"] <= CLOSE for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
