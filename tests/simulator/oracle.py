"""What the specimens should do, said again in loops over dense NumPy arrays, one receiver and one sender at a time.

Only the random draws (which links are up, what the channel loses) are asked of the package; nothing of layouts, slots,
packing or gathers is.
"""

import jax
import numpy as np

from tacit import runtime
from tacit.graphs import Channel
from tests.simulator.specimens import CENTRE, DIM


def dense_weights(graph, live):
    """W (receiver, sender) of a rule, from the matrix of links that are up (diagonal: False)."""
    two_roles = graph.sources is not None
    own = 0 if two_roles else 1
    in_degree, out_degree = live.sum(axis=1), live.sum(axis=0)
    if graph.weights.rule == "given":
        edge, self_weight = np.asarray(graph.weights.edge), np.asarray(graph.weights.own)
        full = np.zeros(live.shape)
        full[graph.receivers, graph.senders] = edge
        W = np.where(live, full, 0)
        missing = full - W
        back = {"sender": missing.sum(axis=0), "receiver": missing.sum(axis=1), "either": missing.sum(axis=1)}
        return W + np.diag(self_weight + back.get(graph.weights.absorbs, 0))
    if graph.weights.rule == "metropolis":
        W = np.where(live, 1 / (1 + np.maximum(in_degree[:, None], in_degree[None])), 0.0)
        return W + np.diag(1 - W.sum(axis=1))
    share = 1 / np.maximum(own + (out_degree if graph.weights.rule == "sender" else in_degree), 1)
    W = np.where(live, share[None] if graph.weights.rule == "sender" else share[:, None], 0.0)
    return W if two_roles else W + np.diag(share)


class Links:
    """One link set: who may send to whom, and with which weight, in each round."""

    def __init__(self, graph, index, seed, double=True):
        self.graph, self.index, self.root = graph, index, jax.random.key(seed)
        self.double = double
        self.exists = np.zeros((graph.agents, graph.columns), bool)
        self.exists[graph.receivers, graph.senders] = True

    def at(self, t):
        """(live, W) of round t; live has a True diagonal among agents of one role."""
        graph, live = self.graph, self.exists.copy()
        if graph.dynamics is not None:
            key = runtime.links_key(self.root, self.index, t)
            with jax.enable_x64(self.double):  # draws depend on the precision of the run
                up, _ = graph.dynamics.live(t, key, graph.senders, graph.receivers, graph.agents)
            live[graph.receivers, graph.senders] = np.asarray(up)
        W = dense_weights(graph, live)
        return (live | np.eye(len(live), dtype=bool) if graph.sources is None else live), W


class Post:
    """The messages of one phase on their way."""

    def __init__(self, links, phase, channel):
        self.links, self.phase, self.channel = links, phase, channel
        self.under_way = []

    def send(self, t, left, W, value):
        """`value(i, j)` goes from j to i where `left[i, j]`; returns how many left each sender for somebody else."""
        graph, channel = self.links.graph, self.channel
        delay = np.zeros(left.shape, int)
        if not channel.reliable:
            key = runtime.channel_key(self.links.root, self.phase, t)
            with jax.enable_x64(self.links.double):
                lost, late = map(np.asarray, channel.draw(key, graph.edges))
            delay[graph.receivers, graph.senders] = np.where(lost, -1, late)
        for i, j in np.argwhere(left):
            if delay[i, j] >= 0:
                self.under_way.append((t + delay[i, j], t, i, j, value(i, j), W[i, j]))
        others = left.copy()
        if graph.sources is None:
            np.fill_diagonal(others, False)
        return others

    def arriving(self, t):
        """Receiver -> list of (sender, age, value, weight when sent)."""
        entries = {}
        for due, sent, i, j, value, weight in self.under_way:
            if due == t:
                entries.setdefault(i, []).append((j, t - sent, value, weight))
        self.under_way = [u for u in self.under_way if u[0] > t]
        return entries


class Outcome:
    """Per round: loss and messages of each repeat; in the end the models."""

    def __init__(self, repeats):
        self.repeats = repeats
        self.loss, self.messages, self.models = [], [], None

    def note(self, models, batch):
        losses = np.sum((models - CENTRE) ** 2, axis=1) + np.sum(batch * models[:, :DIM], axis=1)
        self.loss.append(losses.reshape(self.repeats, -1).mean(axis=1))

    def close(self, models):
        self.models = models.reshape(self.repeats, -1, models.shape[-1])
        self.loss, self.messages = np.array(self.loss).T, np.array(self.messages).T
        return self


def everything(graph, batches, *, repeats=1, seed=0, channel=None, deliveries=4):
    """`specimens.everything` on a union of `repeats` graphs; batches (rounds, agents, DIM)."""
    channel = channel or Channel()
    links = Links(graph, 0, seed)
    total = graph.agents
    n = total // repeats
    agent = np.arange(total) % n
    posts = [Post(links, k, channel) for k in range(4)]
    x = np.zeros((total, DIM)) + 0.1 * agent[:, None]
    mass, heard, memory = np.ones(total), np.zeros(total, int), np.zeros((total, total))
    out_neighbours = [np.flatnonzero(links.exists[:, j]) for j in range(total)]
    outcome = Outcome(repeats)

    def models():
        return np.column_stack([x, mass, heard / 997, memory.sum(axis=1)])

    def per_repeat(sent):
        return sent.sum(axis=1).reshape(repeats, -1).sum(axis=1)

    for t, batch in enumerate(batches, start=1):
        live, W = links.at(t)
        outcome.note(models(), batch)
        sent = 0

        x = x - 0.1 * (x - batch)
        sent = sent + per_repeat(posts[0].send(t, live, W, lambda i, j, x=x, t=t: (x[j], t + 10 * agent[j])))
        entries = posts[0].arriving(t)
        x = np.array([sum((W[i, j] * v[0] for j, _, v, _ in entries.get(i, [])), np.zeros(DIM)) for i in range(total)])
        heard = np.array([(heard[i] + sum(v[1] for _, _, v, _ in entries.get(i, []))) % 997 for i in range(total)])

        sent = sent + per_repeat(posts[1].send(t, live, W, lambda i, j, x=x, m=mass: (x[j], m[j])))
        entries = posts[1].arriving(t)
        x = np.array([sum((w * v[0] for _, _, v, w in entries.get(i, [])), np.zeros(DIM)) for i in range(total)])
        mass = np.array(
            [
                0.1
                + 0.9 * sum(w * v[1] for _, _, v, w in entries.get(i, []))
                + 0.01 * sum(np.sin(w * v[1]) * (1 + age) for _, age, v, w in entries.get(i, []))
                for i in range(total)
            ]
        )
        if deliveries == 2:
            outcome.messages.append(sent)
            continue

        def for_slot(i, j, x=x, W=W):
            return (1 + 0.1 * agent[i] + W[i, j]) * x[j]

        sent = sent + per_repeat(posts[2].send(t, live, W, for_slot))
        entries = posts[2].arriving(t)
        weighted = np.array(
            [sum((v / (2 + agent[j]) for j, _, v, _ in entries.get(i, [])), np.zeros(DIM)) for i in range(total)]
        )
        raw = np.array(
            [
                sum((np.sin(v) * (1 + age) * (2 + agent[j]) for j, age, v, _ in entries.get(i, [])), np.zeros(DIM))
                for i in range(total)
            ]
        )
        x = 0.5 * np.tanh(x + weighted + 0.1 * raw)
        heard = heard + np.array([len(entries.get(i, [])) for i in range(total)])

        addressed = np.eye(total, dtype=bool)
        for j, neighbours in enumerate(out_neighbours):
            if neighbours.size:
                addressed[neighbours[(t + agent[j]) % neighbours.size], j] = True
                if t % 2:
                    addressed[neighbours[0], j] = True
        sent = sent + per_repeat(posts[3].send(t, live & addressed, W, lambda i, j, x=x: x[j, 1]))
        entries = posts[3].arriving(t)
        for i, mine in entries.items():
            for j, _, v, _ in sorted(mine, key=lambda entry: -entry[1]):  # the youngest one is written last
                memory[i, j] = v
        degrees = 0.01 * (live.sum(axis=1) - 1) + 0.02 * (live.sum(axis=0) - 1)
        x = 0.5 * x + degrees[:, None]
        outcome.messages.append(sent)
    return outcome.close(models())


def federated(topology, batches, *, cohort=2, repeats=1, seed=0, channel=None):
    """`specimens.federated` on a union of `repeats` topologies; batches (rounds, clients, DIM)."""
    channel = channel or Channel()
    links = {name: Links(topology.links[name], k, seed) for k, name in enumerate(("down", "up", "among"))}
    posts = {name: Post(links[name], k, channel) for k, name in enumerate(links)}
    clients, servers = topology.roles["client"], topology.roles["server"]
    xc = np.zeros((clients, DIM)) + 0.01 * (np.arange(clients) % (clients // repeats))[:, None]
    xs = np.zeros((servers, DIM)) + 0.1 * (1 + np.arange(servers) % (servers // repeats))[:, None]
    count_c, count_s = np.zeros(clients, int), np.zeros(servers, int)
    home = np.array([np.flatnonzero(links["down"].exists[c])[0] for c in range(clients)])
    outcome = Outcome(repeats)

    def models():
        return np.column_stack([xs, count_s / 1000, 0 * count_s, 0 * count_s])[home]

    def by_receiver(sent):
        return sent.sum(axis=1).reshape(repeats, -1).sum(axis=1)

    for t, batch in enumerate(batches, start=1):
        outcome.note(models(), batch)
        live, W = links["down"].at(t)
        addressed = np.zeros_like(live)
        for s in range(servers):
            neighbours = np.flatnonzero(links["down"].exists[:, s])
            for k in range(min(cohort, neighbours.size)):
                addressed[neighbours[(t + k) % neighbours.size], s] = True
        sent = by_receiver(posts["down"].send(t, live & addressed, W, lambda i, j, x=xs.copy(), t=t: (x[j], t)))
        reached = np.zeros(clients, bool)
        for c, mine in posts["down"].arriving(t).items():
            reached[c] = True
            xc[c] = np.mean([v[0] for _, _, v, _ in mine], axis=0)
            count_c[c] += sum(v[1] for _, _, v, _ in mine)

        xc[reached] -= 0.3 * (xc[reached] - batch[reached])
        count_c[reached] += 300
        live, W = links["up"].at(t)
        answers = xc.copy(), count_c.copy()
        sent = sent + by_receiver(
            posts["up"].send(t, live & reached[None], W, lambda i, j, said=answers: (said[0][j], said[1][j]))
        )
        for s, mine in posts["up"].arriving(t).items():
            values = np.array([v[0] for _, _, v, _ in mine])
            xs[s] = values.mean(axis=0) + 0.01 * np.sin(values).sum(axis=0)
            count_s[s] += len(mine) + sum(v[1] for _, _, v, _ in mine)

        live, W = links["among"].at(t)
        sent = sent + by_receiver(posts["among"].send(t, live, W, lambda i, j, x=xs.copy(): x[j]))
        new = np.zeros_like(xs)
        for s, mine in posts["among"].arriving(t).items():
            new[s] = sum(W[s, j] * v for j, _, v, _ in mine)
        xs = new
        outcome.messages.append(sent)
    return outcome.close(models())
