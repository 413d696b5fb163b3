"""What every test finds, wherever and however the suite is started."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec

# What the user has set about terminals, the Hugging Face hub and proxies is not what is tested.
# Before any import: some packages read it once.
OUTSIDE = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_", "HF_", "PERDURE_CACHE", "MPL")
for name in list(os.environ):
    if name.startswith(OUTSIDE) or name.lower().endswith("_proxy"):
        del os.environ[name]
os.environ["PERDURE_QUIET"] = "1"  # on a busy machine any command may take long enough for a line

# The clock of a busy machine proves nothing.
calm = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("calm", deadline=None, suppress_health_check=calm)
hypothesis.settings.load_profile("calm")


collect_ignore_glob = ["fixtures/*"]  # scripts that need other tools

# Modules that start processes, browsers or clusters, or train for long: `make test-quick` leaves
# them out, `make test` runs them.
LONG_MODULES = """
cli_run cli_run_processes compare_tests data_cache data_hub data_load evaluator_alarm
evaluator_executors evaluator_failures evaluator_intruders evaluator_kills evaluator_laws
evaluator_layers evaluator_live evaluator_record evaluator_resume examples execution_ray
figures_curves figures_matrix figures_real fuzz hostile_files live_chart live_clients live_methods
live_page many_tasks report_broken_runs report_chart_scripts report_charts report_page
report_page_browser scenarios_named strategies strategies_contract
strategies_costs study_end_to_end study_status together
training_checkpoint training_kills training_resume trust_imports trust_stores waits writer_lock
zoo
avalanche lightning recipes transformers trl
""".split()  # noqa: SIM905 - a list to read


class NeedsTorch:
    """Skips what imports PyTorch, where there is none: a module of tests, or a test."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name.partition(".")[0] == "torch":
            raise pytest.skip.Exception("needs PyTorch", allow_module_level=True)
        return None


if find_spec("torch") is None:
    sys.meta_path.insert(0, NeedsTorch)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of long modules, and begin with them: at the end no process waits for one.

    Of the cases of a law marked `one_in(n)`, all but every n-th are marked slow.
    """
    cases: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("one_in")) is not None:
            law = item.nodeid.partition("[")[0]
            if cases[law] % mark.args[0]:
                item.add_marker("slow")
            cases[law] += 1
        if item.path.stem.removeprefix("test_") in LONG_MODULES:
            item.add_marker("long")
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none; begin with the same random numbers every time."""
    if item.get_closest_marker("cuda") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA device here")
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what tests draw from is the global state
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> Iterator[None]:
    """Heed interrupts, here and in what is started here: a suite in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Train small tensors on one thread: on a busy machine threads that wait cost ten times it."""
    if (torch := sys.modules.get("torch")) is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
