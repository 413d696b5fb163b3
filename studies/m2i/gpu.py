"""M2I and I2M as published, on a GPU in bfloat16: one run after another.

python studies/m2i/gpu.py STORE m2i class naive replay lwf gdumb cwr-star ewc mas
"""

from __future__ import annotations

import sys
import time

from perdure.training import make_config, run


def main() -> None:
    """Run the strategies named on the command line."""
    store, scenario, setting, *strategies = sys.argv[1:]
    for strategy in strategies:
        config = make_config(
            scenario, strategy, setting=setting, device="cuda", precision="bfloat16",
            channels_last=True, every=1_000_000, per_example=False, unseen=setting != "class",
        )  # fmt: skip
        start = time.perf_counter()
        run(config, f"{store}/{config.folder}", overwrite=True)
        print(f"{config.folder}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
