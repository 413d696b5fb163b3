"""Three experiences of digits, learned by Avalanche's replay: python examples/with_avalanche.py."""

import sys

import torch
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.training import Replay
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import perdure
from perdure.adapters.avalanche import ContinualEvaluation

torch.manual_seed(0)
x, y = map(torch.tensor, load_digits(return_X_y=True))
x, test = x.float() / 16, torch.rand(len(y)) < 0.3


def dataset(rows):
    data = TensorDataset(x[rows], y[rows])
    data.targets = y[rows]  # the name that Avalanche looks for
    return as_classification_dataset(data)


tasks = [(y >= k) & (y <= k + 2) for k in (0, 3, 6)]
train, tests = [dataset(of & ~test) for of in tasks], [dataset(of & test) for of in tasks]
benchmark = benchmark_from_datasets(train=train, test=tests)
model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Dropout(), nn.Linear(100, 9))
record = perdure.Record(sys.argv[1] if len(sys.argv) > 1 else "runs/avalanche", overwrite=True)
with ContinualEvaluation(benchmark.test_stream, record=record) as evaluation:
    strategy = Replay(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mem_size=60,
        criterion=nn.CrossEntropyLoss(), train_mb_size=20, train_epochs=2, plugins=[evaluation],
    )  # fmt: skip
    for experience in benchmark.train_stream:
        strategy.train(experience, num_workers=0)
print(evaluation.summary())
