"""A cohort works and is waited for, and nobody else; and what an agent's envelopes hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.core.contract import per_slot, push, share
from tacit.peer import RoundMachine
from tests.peer.machines import (
    FEDERATED_VIEWS,
    ME,
    NEIGHBOURS,
    begin,
    envelope,
    federated,
    functions_of,
    links,
    machine,
    numbers,
    two_phases,
    view,
)


@pytest.fixture(scope="module")
def functions():
    return functions_of(federated(), FEDERATED_VIEWS)


class TestAnswers:
    """A cohort works and is waited for, and nobody else."""

    @staticmethod
    def begin(functions, role):
        one = RoundMachine(functions, role, ME, jax.random.key(0), jnp.zeros(2), FEDERATED_VIEWS[role])
        now = {name: v._replace(round=jnp.int32(1)) for name, v in FEDERATED_VIEWS[role].items()}
        return one, one.begin(jnp.zeros(2) if role == "client" else (), now)

    def test_a_server_waits_for_those_whom_it_asked(self, functions):
        server, sent = self.begin(functions, "server")
        assert {e.receiver for e in sent} == {1, 6}
        assert server.waiting_for() == set()
        assert server.proceed() == []
        assert server.waiting_for() == {1, 6}
        server.receive(envelope(sender=6, phase=1, links="up"))
        assert server.waiting_for() == {1}
        server.receive(envelope(sender=1, phase=1, links="up"))
        assert {e.receiver for e in server.proceed()} == {1, 4, 6}

    def test_a_server_that_nobody_answered_says_nothing(self, functions):
        server, _ = self.begin(functions, "server")
        server.proceed()
        before = numbers(server)
        assert server.proceed() == []
        assert numbers(server)[0] == before[0]

    def test_a_client_that_was_not_asked_keeps_its_state_and_is_silent(self, functions):
        client, sent = self.begin(functions, "client")
        assert sent == []
        assert client.waiting_for() == {1, 4, 6}
        before = numbers(client)
        assert client.proceed() == []
        assert numbers(client)[0] == before[0]
        assert client.waiting_for() == set()
        client.proceed()
        assert client.waiting_for() == set(), "it sent nothing up, so nobody will tell it anything"
        assert client.proceed() == []
        assert client.waiting_for() == {1, 4, 6}, "whom a server asked is not for a client to know"

    def test_a_client_that_was_asked_answers_and_waits_to_be_told(self, functions):
        client, _ = self.begin(functions, "client")
        client.receive(envelope(sender=4, links="down"))
        answers = client.proceed()
        assert {(e.links, e.phase, e.receiver) for e in answers} == {("up", 1, r) for r in (1, 4, 6)}
        client.proceed()
        assert client.waiting_for() == {1, 4, 6}
        assert {e.receiver for e in client.proceed()} == set(NEIGHBOURS)


class TestEnvelopes:
    """What leaves: one message for each live link, as it lies on the wire."""

    @staticmethod
    def sent(delivery):
        def emit(state, released, view):
            if delivery is per_slot:
                return state, per_slot(jnp.arange(4.0)[:, None] * released, public=view.out.agent)
            return state, delivery(released, public=state.x[0])

        algorithm = two_phases()
        phase = algorithm.phases[0]._replace(emit=emit, absorb=lambda k, s, i, v: s)
        algorithm = algorithm._replace(phases=(phase,))
        one = machine(functions=functions_of(algorithm, {"peer": {"peers": view(0)}}))
        envelopes = begin(one, out=links(live=(True, True, False, True)))
        assert [(e.links, e.phase, e.round, e.sender, e.receiver) for e in envelopes] == [
            ("peers", 0, 1, ME, 1),
            ("peers", 0, 1, ME, 6),
        ]
        for each in envelopes:
            assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(each.message))
        return [e.message for e in envelopes]

    def test_share(self):
        for message in self.sent(share):
            np.testing.assert_array_equal(message.private, [1, 1])

    def test_push(self):
        first, last = self.sent(push)
        np.testing.assert_allclose(first.private, [0.1, 0.1])
        np.testing.assert_allclose(last.private, [0.3, 0.3])
        np.testing.assert_allclose(last.public, 0.3)

    def test_per_slot(self):
        first, last = self.sent(per_slot)
        np.testing.assert_array_equal(first.private, [1, 1])
        np.testing.assert_array_equal(last.private, [3, 3])
        assert (int(first.public), int(last.public)) == (1, 6)
