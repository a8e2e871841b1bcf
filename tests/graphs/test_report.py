from tacit import graphs
from tacit.graphs import OptOut, describe, report


def test_report_of_a_digraph():
    found = describe(graphs.random_digraph(50, 5, 0).with_weights("receiver"))
    assert (found.agents, found.weights, found.dynamics) == (50, "receiver", None)
    assert found.strongly_connected
    assert not found.symmetric
    assert 0 < found.one_sided_share <= 1
    assert found.receiver_normalised
    assert not found.sender_normalised
    assert found.doubly_stochastic is False
    assert found.window.rounds == 1
    assert 0 < found.spectral_gap < 1
    assert found.perron_ratio > 1
    assert found.notes == ()
    assert found.out_degree.least >= 1
    assert found.out_degree.greatest <= 5
    text = str(found)
    assert "receiver-normalised                   yes" in text
    assert f"{found.spectral_gap:.4g}" in text


def test_report_of_a_symmetric_graph():
    found = describe(graphs.ring(12).with_weights("metropolis"))
    assert found.doubly_stochastic
    assert found.one_sided_share == 0
    assert abs(found.perron_ratio - 1) < 1e-6


def test_what_is_left_out_is_said(monkeypatch):
    found = describe(graphs.ring(5))
    assert found.sender_normalised is found.doubly_stochastic is found.spectral_gap is None
    assert "no weights chosen" in found.notes[0]
    changing = describe(graphs.ring(5).with_weights("sender").with_dynamics(OptOut(0.2)))
    assert changing.spectral_gap is None
    assert "W changes" in changing.notes[0]
    monkeypatch.setattr(report, "LARGEST_SPECTRAL", 4)
    monkeypatch.setattr(report, "LARGEST_SAMPLED", 4)
    large = describe(graphs.ring(5).with_weights("sender"))
    assert large.spectral_gap is None
    assert "above 4 agents" in str(large)
    sampled = describe(graphs.ring(5).with_dynamics(OptOut(0.2)))
    assert sampled.window is None
    assert "not sampled above 4 edges" in str(sampled)


def test_report_of_a_disconnected_graph():
    found = describe(graphs.from_edges(3, [0], [1]).with_weights("sender"))
    assert not found.strongly_connected
    assert found.perron_ratio is None
    assert found.window.rounds is None
