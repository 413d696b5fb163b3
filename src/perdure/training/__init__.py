"""A config to one finished run: the training loop, checkpoints, early stopping.

To read it from top to bottom: `config`, `single_run`, `setup`, `loop`. Configs, and what has
changed since a run was made, need no PyTorch; the rest is imported when it is first used.
"""

from typing import TYPE_CHECKING

from .._devices import resolve_device
from .._extras import import_on_use
from .changes import (
    ResumeError,
    check_resumable,
    find_data_changes,
    find_version_changes,
    load_provenance,
)
from .config import RunConfig, make_config

if TYPE_CHECKING:
    from .checkpoint import load_checkpoint, save_checkpoint
    from .estimate import estimate_seconds, make_duration_key
    from .loop import Position, TrainingPlan, train
    from .monitoring import DivergedError, EarlyStopping
    from .setup import build_learner, load_scenario, make_scenario_key
    from .single_run import run

__all__ = [
    "DivergedError",
    "EarlyStopping",
    "Position",
    "ResumeError",
    "RunConfig",
    "TrainingPlan",
    "build_learner",
    "check_resumable",
    "estimate_seconds",
    "find_data_changes",
    "find_version_changes",
    "load_checkpoint",
    "load_provenance",
    "load_scenario",
    "make_config",
    "make_duration_key",
    "make_scenario_key",
    "resolve_device",
    "run",
    "save_checkpoint",
    "train",
]

_MODULES = {
    "DivergedError": "monitoring",
    "EarlyStopping": "monitoring",
    "Position": "loop",
    "TrainingPlan": "loop",
    "build_learner": "setup",
    "estimate_seconds": "estimate",
    "load_checkpoint": "checkpoint",
    "load_scenario": "setup",
    "make_duration_key": "estimate",
    "make_scenario_key": "setup",
    "run": "single_run",
    "save_checkpoint": "checkpoint",
    "train": "loop",
}

if not TYPE_CHECKING:  # a type checker would take any name for an attribute
    __getattr__ = import_on_use(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
