"""Two tasks of digits with replay: python examples/gate/train.py RECORD [--seed 1] [--memory 0]."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import perdure

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("record", help="folder of the run")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--memory", type=int, default=100, help="examples of the first task that stay")
parser.add_argument("--evaluate", type=int, default=450, help="evaluation examples per task")
options = parser.parse_args()

x, y = map(torch.tensor, load_digits(return_X_y=True))
x = x.float() / 16
rows = torch.arange(len(y))
tasks = {"digits 0-4": y < 5, "digits 5-9": y >= 5}
test = {name: rows[of & (rows % 2 == 0)][: options.evaluate] for name, of in tasks.items()}
train = {name: rows[of & (rows % 2 == 1)] for name, of in tasks.items()}

torch.manual_seed(options.seed)
model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
memory = torch.empty(0, dtype=torch.long)
with perdure.Evaluator(
    {name: (x[of], y[of]) for name, of in test.items()},
    record=perdure.Record(options.record, overwrite=True),
    every=25,
    subset=None,  # whole sets, so that every evaluation is of the same examples
    config={"setting": "class", "memory": options.memory, "seed": options.seed},
) as evaluator:
    for name, own in train.items():
        with evaluator.task(name, model):
            for _ in range(10):
                for batch in own[torch.randperm(len(own))].split(32):
                    replayed = memory[torch.randperm(len(memory))[:32]]
                    both = torch.cat([batch, replayed])
                    optimizer.zero_grad()
                    cross_entropy(model(x[both]), y[both]).backward()
                    optimizer.step()
                    evaluator.step(model)
        memory = torch.cat([memory, own[torch.randperm(len(own))[: options.memory]]])

print(f"{options.record}: acc {evaluator.summary().metrics['acc']:.3f}")
