"""The blocks of docs/tour.md run as they stand, and print what they say."""

from __future__ import annotations

from tests.docs.pages import ROOT, blocks

BLOCKS = [block.text for block in blocks(ROOT / "docs" / "tour.md", "python")]


def test_geometry_budgets_and_absence(capsys):
    exec(BLOCKS[0], {})
    assert "l1 norm at most 1" in capsys.readouterr().out


def test_noise_that_knows_the_graph_and_servers(capsys):
    exec(BLOCKS[1], {})
    plain, masked, homomorphic, independent = (line.partition(" ") for line in capsys.readouterr().out.splitlines())
    assert plain[2] == masked[2]
    assert plain[2] not in (homomorphic[2], independent[2])


def test_one_model_for_each_cluster(capsys):
    exec(BLOCKS[2], {})
    rho, tau = capsys.readouterr().out.split("\n", 1)
    total = sum(0.99**-t for t in range(100)) / (2 * 5.0**2)
    assert 0.3 * total < float(rho) < total  # of the client that was called most often
    assert len(tau.replace("[", "").replace("]", "").split()) == 30


def test_clients_that_are_mostly_away(capsys):
    code = BLOCKS[3].replace("rounds=400", "rounds=100").replace("(100, 200, 300, 400)", "(25, 50, 75, 100)")
    names: dict = {}
    exec(code, names)
    sent = int(capsys.readouterr().out)
    assert sent > 0
    assert sent % (4 * 32) == 0
    assert names["private"].privacy.private
