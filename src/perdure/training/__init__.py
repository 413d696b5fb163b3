"""A config to one finished run: the training loop, checkpoints, early stopping.

To read it from top to bottom: `config`, `run`, `setup`, `loop`.
"""

from .changes import ResumeError, check_resumable, find_data_changes, find_version_changes
from .checkpoint import load_checkpoint, save_checkpoint
from .config import RunConfig, make_config
from .divergence import DivergedError
from .early_stopping import EarlyStopping
from .estimate import estimate_seconds, make_duration_key
from .loop import Position, TrainingPlan, train
from .run import run
from .setup import (
    build_learner,
    load_provenance,
    load_scenario,
    make_scenario_key,
    resolve_device,
)

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
