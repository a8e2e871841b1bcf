from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats

from tacit.privacy.noise import NoiseSource

ALPHA = 1e-6
"""False-alarm rate of the statistical test."""


def seeded(seed: int) -> NoiseSource:
    return NoiseSource.seeded_for_simulation(seed)


def test_a_seeded_source_repeats_itself_and_goes_on() -> None:
    first, second = seeded(4), seeded(4)
    taken = [first.words(3).tolist(), first.words(3).tolist()]
    assert taken == [second.words(3).tolist(), second.words(3).tolist()]
    assert taken[0] != taken[1]
    assert seeded(5).words(3).tolist() != taken[0]
    assert seeded(4).words(0).size == 0


def test_a_source_keeps_no_key_and_never_repeats() -> None:
    source = NoiseSource()
    before = dict(vars(source))
    words = np.concatenate([source.words(1000), source.words(1000), NoiseSource().words(1000)])
    assert vars(source) == before  # nothing that leads back to a draw
    assert len(np.unique(words)) == 3000


def test_words_are_uniform() -> None:
    for source in (NoiseSource(), seeded(6)):
        bits = np.unpackbits(source.words(2**14).view(np.uint8)).reshape(-1, 64).mean(axis=0)
        assert np.all(np.abs(bits - 0.5) * 2 * 2**7 < stats.norm.isf(ALPHA / 256))


def test_the_key_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words are the ChaCha20 stream of that key, behind the 32 bytes that would be a seeded source's next key."""
    asked: list[int] = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or bytes(range(size)))
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(bytes(range(32)), bytes(16)), mode=None).encryptor().update(bytes(32 + 24))
    assert NoiseSource().words(3).tobytes() == stream[32:]
    assert asked == [32]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX warns; the child calls nothing of it
def test_a_forked_process_draws_other_noise() -> None:
    source = NoiseSource()
    source.words(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 32)
    os.close(read)
    os.close(write)
    assert len(theirs) == 32
    assert theirs != source.words(4).tobytes()
