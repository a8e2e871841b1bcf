import re

import pytest

from tacit import graphs
from tacit.core.contract import Requirement
from tacit.core.errors import RequirementError
from tacit.graphs import Channel, Delay, LinkDrop, OptOut, check_channel, check_requirements, require

LINE = graphs.from_edges(3, [0, 1], [1, 2])
DIGRAPH = graphs.random_digraph(10, 3, 0)
RING = graphs.ring(6)
ONE_WAY_IN_TURN = graphs.periodic([graphs.directed_ring(6), graphs.directed_ring(6).reverse()])


@pytest.mark.parametrize(
    ("graph", "requirement", "evidence", "remedy"),
    [
        (LINE, "strongly_connected", "no path from agent 1 to agent 0", "random_digraph"),
        (
            graphs.periodic([LINE]),
            "connected_over_time",
            "not even over all rounds",
            "let the rounds connect everybody",
        ),
        (graphs.directed_ring(5), "symmetric", "the edge 4 -> 0 has no reverse", "mutual()"),
        (
            RING.with_dynamics(LinkDrop(0.1)),
            "symmetric",
            "LinkDrop may leave one direction",
            "symmetric=True",
        ),
        (ONE_WAY_IN_TURN, "symmetric", "Periodic may leave one direction", "symmetric graphs"),
        (
            DIGRAPH.with_weights("receiver"),
            "sender_normalised",
            "the column of sender",
            "with_weights('sender')",
        ),
        (
            DIGRAPH.with_weights("sender"),
            "receiver_normalised",
            "the row of receiver",
            "with_weights('receiver')",
        ),
        (DIGRAPH.with_weights("sender"), "doubly_stochastic", "sums to", "with_weights('metropolis')"),
        (DIGRAPH, "doubly_stochastic", "has no reverse", "push-sum"),
        (RING.with_dynamics(LinkDrop(0.1)), "doubly_stochastic", "one direction", "symmetric=True"),
        (
            RING.with_weights("sender").with_dynamics(OptOut(0.1)),
            "receiver_normalised",
            "while every link is up",
            "with_weights('receiver')",
        ),
        (RING.with_dynamics(OptOut(0.1)), "fixed", "(OptOut)", "with_dynamics(None)"),
    ],
)
def test_a_broken_requirement_is_named_with_evidence_and_remedy(graph, requirement, evidence, remedy):
    (sentence,) = check_requirements(graph, frozenset({requirement}), "some_method")
    assert sentence.startswith(f"some_method requires {requirement} links, but of 'peers'")
    assert evidence in sentence
    assert remedy in sentence.split(": ", 1)[1]
    with pytest.raises(RequirementError, match=f"requires {requirement}"):
        require(graph, frozenset({requirement}), "some_method")


EVERYTHING = frozenset(Requirement.__args__) - {"fixed"}


@pytest.mark.parametrize(
    "graph",
    [
        RING,
        RING.with_weights("metropolis"),
        RING.with_weights("metropolis").with_dynamics(LinkDrop(0.1, symmetric=True)),
        RING.with_weights("metropolis").with_dynamics(OptOut(0.1)),
        graphs.periodic([RING, graphs.star(6)]).with_weights("metropolis"),
    ],
    ids=["no weights", "metropolis", "drop", "opt-out", "periodic"],
)
def test_what_holds_is_not_refused(graph):
    assert check_requirements(graph, EVERYTHING, "some_method") == []
    require(graph, EVERYTHING, "some_method", Channel())


def test_push_sum_requirements_hold_on_a_digraph():
    needs = frozenset({"strongly_connected", "sender_normalised", "fixed", "reliable"})
    assert check_requirements(DIGRAPH, needs, "push_sum") == []
    assert check_requirements(DIGRAPH.with_weights("sender"), needs, "push_sum") == []


def test_every_requirement_is_checked_somewhere():
    from tacit.graphs.requirements import _CHECKS

    assert set(_CHECKS) | {"reliable"} == set(Requirement.__args__)


def test_all_faults_are_told_at_once():
    needs = frozenset({"strongly_connected", "symmetric", "reliable"})
    with pytest.raises(RequirementError) as caught:
        require(LINE, needs, "some_method", Channel(loss=0.1))
    assert len(str(caught.value).splitlines()) == 3


def test_links_between_roles_are_asked_only_to_be_fixed():
    star = graphs.star_roles(4)
    assert check_requirements(star, EVERYTHING | {"fixed"}, "fed_avg") == []
    dropping = graphs.Topology(
        star.roles, {name: link.with_dynamics(LinkDrop(0.1)) for name, link in star.links.items()}
    )
    sentences = check_requirements(dropping, frozenset({"fixed"}), "fed_avg")
    assert ["'uplink'" in sentences[0], "'downlink'" in sentences[1]] == [True, True]


def test_the_channel_is_checked_the_same_way():
    needs = frozenset({"reliable"})
    assert check_channel(Channel(), needs, "push_sum") == []
    assert check_channel(Channel(loss=0.1), frozenset(), "push_sum") == []
    (sentence,) = check_channel(Channel(0.1, Delay(0.2, 10)), needs, "push_sum")
    assert re.match("push_sum .*reliable.* 0.1 .*delays", sentence)
    assert "loss-tolerant variant" in sentence
