"""W of one round written out entry by entry, as the texts define it: slow, obvious, dense."""

import numpy as np


def weight_matrix(rule, agents, senders, receivers, live):
    links = [(int(s), int(r)) for s, r, up in zip(senders, receivers, live, strict=True) if up]
    out = [sum(s == j for s, _ in links) for j in range(agents)]
    into = [sum(r == i for _, r in links) for i in range(agents)]
    W = np.zeros((agents, agents))
    for j, i in links:
        if rule == "sender":
            W[i, j] = 1 / (1 + out[j])
        elif rule == "receiver":
            W[i, j] = 1 / (1 + into[i])
        else:
            W[i, j] = 1 / (1 + max(into[i], into[j]))
    for i in range(agents):
        if rule == "sender":
            W[i, i] = 1 / (1 + out[i])
        elif rule == "receiver":
            W[i, i] = 1 / (1 + into[i])
        else:
            W[i, i] = 1 - W[i].sum()
    return W


def as_matrix(graph, at):
    """Put a RoundGraph into a dense matrix."""
    W = np.zeros((graph.agents, graph.columns))
    W[graph.receivers, graph.senders] = np.asarray(at.edge_weight)
    if graph.sources is None:
        W[np.arange(graph.agents), np.arange(graph.agents)] = np.asarray(at.self_weight)
    return W
