"""The fast tests as other processors would run them, and without PyTorch on Python 3.13.

`make test-processors` prints a line per setting, writes the lines to LOG, and fails if a test
does. Arguments are handed to pytest, and then nothing is written.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import torch

import perdure

from .packaging.environments import ROOT
from .packaging.pythons import find_python, run_without_torch
from .packaging.suite import Outcome, run_suite, where

LOG = ROOT / "studies" / "processors" / "processors.txt"
# The kernels of PyTorch and those of oneDNN; at last this processor's own, with one thread. The
# others have one as well, as in `make test`: two processes of two threads take too long on two
# cores.
SETTINGS = {
    "ATEN_CPU_CAPABILITY=default": {"ATEN_CPU_CAPABILITY": "default"},
    "ATEN_CPU_CAPABILITY=avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "ONEDNN_MAX_CPU_ISA=AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "one thread": {"MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
}
WITHOUT_TORCH = "Python 3.13 without PyTorch"
SUITE = ("-m", "not slow", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-q")
COLUMNS = "{:27}  {:8}  {:>6}  {:>6}  {:>7}  {:>7}"


def main() -> int:
    """Run the suite under each setting and return 1 if a test failed, else 0."""
    lines, failed = header(), False
    for setting in (*SETTINGS, WITHOUT_TORCH):
        if setting == WITHOUT_TORCH:
            kernels, outcome = "", outcome_without_torch()
        else:
            kernels, outcome = (
                kernels_of(setting),
                run_suite(sys.executable, variables(setting), *SUITE, *sys.argv[1:]),
            )
        if outcome is None:
            new = [f"{WITHOUT_TORCH}: skipped, no Python 3.13 was found"]
        else:
            counts = outcome.passed, len(outcome.failed), outcome.skipped, f"{outcome.seconds:.0f}"
            new = [COLUMNS.format(setting, kernels, *counts)]
            new += [f"  failed: {name}" for name in outcome.failed]
            failed |= bool(outcome.failed or not outcome.passed)
        print(*new, sep="\n", flush=True)
        lines += new
    print("", *lines, sep="\n")
    if not sys.argv[1:]:
        LOG.parent.mkdir(exist_ok=True)
        LOG.write_text("\n".join(lines) + "\n")
    return int(failed)


def header() -> list[str]:
    """Return what the log begins with: where and with what it was made."""
    versions = f"perdure {perdure.__version__}, Python {platform.python_version()}, "
    versions += f"torch {torch.__version__}, numpy {np.__version__}"
    return [
        "# The fast tests under settings of the processor, written by `make test-processors`.",
        f"# {where()}, {versions}",
        COLUMNS.format("setting", "kernels", "passed", "failed", "skipped", "seconds"),
    ]


def variables(setting: str) -> dict[str, str]:
    """Return the environment with this setting and nothing of the others."""
    known = {name for each in SETTINGS.values() for name in each}
    kept = {name: value for name, value in os.environ.items() if name not in known}
    return kept | {"OMP_NUM_THREADS": "1"} | SETTINGS.get(setting, {})


def kernels_of(setting: str) -> str:
    """Return which kernels PyTorch chooses."""
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, env=variables(setting), text=True).strip()


def outcome_without_torch() -> Outcome | None:
    """Run what needs no PyTorch on Python 3.13; None if there is none."""
    python = find_python(3, 13)
    return run_without_torch(python, *SUITE, *sys.argv[1:]) if python else None


if __name__ == "__main__":
    sys.exit(main())
