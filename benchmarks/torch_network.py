"""A small convolutional network for ten clients in torch, run by an interpreter of its own: `benchmarks.networks`.

    python torch_network.py '{"agents": 10, ...}'

As pfl-research simulates: one model on the device, into which each client's parameters are loaded in turn, in
channels_last. It reads settings as JSON and prints one line of JSON, {"wall": [...], "processor": [...]} in seconds.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

settings = json.loads(sys.argv[1])
agents, batch, side = settings["agents"], settings["batch"], settings["side"]
torch.set_num_threads(settings["threads"])
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, second = settings["channels"]
        self.first = nn.Conv2d(1, first, 3, padding=1)
        self.second = nn.Conv2d(first, second, 3, padding=1)
        self.out = nn.Linear((side // 4) ** 2 * second, 10)

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = functional.max_pool2d(functional.relu(self.first(x)), 2)
        x = functional.max_pool2d(functional.relu(self.second(x)), 2)
        return self.out(x.flatten(1))


net = Net().to(memory_format=torch.channels_last)
step = torch.optim.SGD(net.parameters(), settings["step"])
states = [{name: value.clone() for name, value in net.state_dict().items()} for _ in range(agents)]
x = torch.randn(settings["period"], agents, batch, 1, side, side)
y = torch.randint(0, 10, (settings["period"], agents, batch))
losses = []


def one_round(t: int) -> None:
    """Each client steps with its own batch; then each takes the mean of its own and its two neighbours' models."""
    for k in range(agents):
        net.load_state_dict(states[k])
        step.zero_grad()
        images = x[t % len(x), k].to(memory_format=torch.channels_last)
        loss = functional.cross_entropy(net(images), y[t % len(x), k])
        loss.backward()
        step.step()
        losses.append(float(loss))
        states[k] = {name: value.clone() for name, value in net.state_dict().items()}
    near = [(states[k - 1], states[k], states[(k + 1) % agents]) for k in range(agents)]
    states[:] = [{name: sum(each[name] for each in three) / 3 for name in three[0]} for three in near]


one_round(0)
found = {"wall": [], "processor": []}
for _ in range(settings["repetitions"]):
    wall, processor = time.perf_counter(), time.process_time()
    for t in range(settings["rounds"]):
        one_round(t)
    found["wall"].append((time.perf_counter() - wall) / settings["rounds"])
    found["processor"].append((time.process_time() - processor) / settings["rounds"])
print(json.dumps(found))
