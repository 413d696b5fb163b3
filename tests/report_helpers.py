"""Real runs to be shown: five tasks of digits, several strategies, two seeds, made once."""

from __future__ import annotations

import base64
import gzip
import json
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from perdure.training import make_config, run

_FOLDER = TemporaryDirectory(prefix="perdure-shown-")
STRATEGIES = ("naive", "cumulative", "replay", "gem")


@cache
def store(strategies: tuple[str, ...] = STRATEGIES, seeds: int = 2) -> Path:
    """Return a folder of finished runs with gradient norms, tested after every step."""
    folder = Path(_FOLDER.name) / f"{'-'.join(strategies)}-{seeds}"
    for strategy in strategies:
        for seed in range(seeds):
            what = make_config(
                "split-digits", strategy, seed=seed, epochs=2, every=1, gradients=1,
                settings={"hidden": 16},
            )  # fmt: skip
            run(what, folder / what.folder)
    return folder


def plotted(text: str) -> dict[str, Any]:
    """Return what the page's script is given."""
    found = re.search(r'id="plot-data" class="plot-data">(.*?)</script>', text, re.S)
    assert found
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return data
