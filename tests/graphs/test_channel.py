import jax
import numpy as np
import pytest
import scipy.stats

from tacit.core.errors import ConfigError
from tacit.graphs import Channel, Delay

FALSE_ALARM = 1e-6
N = 100_000


def test_a_reliable_channel_does_nothing():
    lost, delay = Channel().draw(jax.random.key(0), 50)
    assert Channel().reliable
    assert Channel().longest_delay == 0
    assert not np.asarray(lost).any()
    assert not np.asarray(delay).any()
    assert delay.dtype == np.int32


def test_messages_are_lost_with_their_probability():
    channel = Channel(loss=0.15)
    lost, _ = jax.jit(channel.draw, static_argnums=1)(jax.random.key(1), N)
    low, high = scipy.stats.binom.interval(1 - FALSE_ALARM, N, 0.15)
    assert low <= int(np.sum(lost)) <= high
    assert not channel.reliable


def test_delay_is_geometric_and_older_messages_are_lost():
    channel = Channel(delay=Delay(p=0.5, longest=4))
    lost, delay = (np.asarray(x) for x in channel.draw(jax.random.key(2), N))
    assert not channel.reliable
    assert channel.longest_delay == 4
    for rounds in range(1, 5):
        low, high = scipy.stats.binom.interval(1 - FALSE_ALARM, N, 0.5**rounds)
        assert low <= np.sum(lost | (delay >= rounds)) <= high
    low, high = scipy.stats.binom.interval(1 - FALSE_ALARM, N, 0.5**5)
    assert low <= lost.sum() <= high
    assert delay.max() == 4


def test_loss_and_delay_are_independent():
    lost, delay = (np.asarray(x) for x in Channel(0.5, Delay(0.5, 30)).draw(jax.random.key(3), N))
    low, high = scipy.stats.binom.interval(1 - FALSE_ALARM, N, 0.25)
    assert low <= np.sum(lost & (delay >= 1)) <= high


def test_no_delay_at_p_zero():
    lost, delay = Channel(delay=Delay(0.0, 3)).draw(jax.random.key(4), 100)
    assert not np.asarray(lost).any()
    assert not np.asarray(delay).any()


@pytest.mark.parametrize("make", [lambda: Channel(loss=1.0), lambda: Channel(loss=-0.1), lambda: Delay(p=1.0)])
def test_values_out_of_range_are_refused(make):
    with pytest.raises(ConfigError, match=r"\[0, 1\)"):
        make()


def test_longest_delay_is_not_negative():
    with pytest.raises(ConfigError, match="0 or more"):
        Delay(longest=-1)
