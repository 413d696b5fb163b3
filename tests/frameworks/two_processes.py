"""Trains with Lightning in two processes: python -m … FOLDER, with an evaluation if it is given."""

from __future__ import annotations

import sys
import warnings
from hashlib import sha256

warnings.simplefilter("ignore")

import torch  # noqa: E402
from torch import distributed  # noqa: E402

from tests.frameworks.helpers import evaluation_data, weights  # noqa: E402
from tests.frameworks.test_lightning import ContinualEvaluation, Module, fit  # noqa: E402

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Module()
    callbacks = [ContinualEvaluation(evaluation_data(), task="a", record=f) for f in sys.argv[1:]]
    fit(model, "a", callbacks, devices=2, strategy="ddp")
    if distributed.get_rank() == 0:
        bits = b"".join(value.numpy().tobytes() for value in weights(model).values())
        print("weights", sha256(bits).hexdigest())
