"""A hand-written replay loop on three tasks of digits: python examples/own_loop.py."""

import sys

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import perdure

torch.manual_seed(0)
x, y = map(torch.tensor, load_digits(return_X_y=True))
x = x.float() / 16
tasks = {f"digits {k}-{k + 2}": (y >= k) & (y <= k + 2) for k in (0, 3, 6)}
test = torch.rand(len(y)) < 0.3
model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
memory = torch.empty(0, dtype=torch.long)

record = sys.argv[1] if len(sys.argv) > 1 else "runs/own-loop"
evaluation = {name: (x[of & test], y[of & test]) for name, of in tasks.items()}
config = {"setting": "class", "strategy": "replay", "memory": 20, "lr": 0.1, "seed": 0}
with perdure.Evaluator(
    evaluation, record=perdure.Record(record, overwrite=True), config=config
) as evaluator:
    for name, of in tasks.items():
        new = torch.nonzero(of & ~test).flatten()
        with evaluator.task(name, model, train_data=(x[new], y[new]), stored_samples=x[memory]):
            for batch in new[torch.randperm(len(new)).repeat(10)].split(20):
                rows = torch.cat([batch, memory[torch.randperm(len(memory))[:20]]])
                optimizer.zero_grad()
                cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                evaluator.step(model)
        memory = torch.cat([memory, new[:20]])

metrics = evaluator.summary().metrics
for id_ in ("acc", "forgetting.learned", "min_acc", "wc_acc", "wf10", "gap.depth", "sss", "ce"):
    print(f"{id_:20}{metrics[id_]:.3f}")
print(f"All metrics: perdure score {record}")
