"""Three tasks of digits, one fit of Lightning each: python examples/with_lightning.py."""

import sys

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import perdure
from perdure.adapters.lightning import ContinualEvaluation


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Dropout(), nn.Linear(100, 9))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(0)
x, y = map(torch.tensor, load_digits(return_X_y=True))
x, test = x.float() / 16, torch.rand(len(y)) < 0.3
tasks = {f"digits {k}-{k + 2}": (y >= k) & (y <= k + 2) for k in (0, 3, 6)}
model, tests = Classifier(), {name: (x[of & test], y[of & test]) for name, of in tasks.items()}
record = perdure.Record(sys.argv[1] if len(sys.argv) > 1 else "runs/lightning", overwrite=True)
with ContinualEvaluation(tests, record=record, config={"seed": 0}) as evaluation:
    for evaluation.task, of in tasks.items():
        data = DataLoader(TensorDataset(x[of & ~test], y[of & ~test]), 20, shuffle=True)
        lightning.Trainer(max_epochs=2, callbacks=[evaluation]).fit(model, data)
print(evaluation.summary())
