"""M2I and I2M as published, on a GPU in bfloat16: one run after another.

python studies/m2i/gpu.py STORE m2i class naive replay lwf gdumb cwr-star ewc mas
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

from perdure.models.wide_vgg9 import wide_vgg9
from perdure.training import make_config, run


def channels_last(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """Return the paper's network in the memory format that is fastest on a GPU."""
    return wide_vgg9(shape, outputs).to(memory_format=torch.channels_last)


def main() -> None:
    """Run the strategies named on the command line."""
    store, scenario, setting, *strategies = sys.argv[1:]
    for strategy in strategies:
        config = make_config(
            scenario, strategy, model="gpu:channels_last", setting=setting, device="cuda",
            every=1_000_000, per_example=False, unseen=setting == "task",
        )  # fmt: skip
        start = time.perf_counter()
        # The cache would keep the weights of the first step until the block ends.
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            run(config, f"{store}/{config.folder}", overwrite=True)
        print(f"{config.folder}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
