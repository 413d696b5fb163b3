"""Scenarios: datasets as an ordered stream of tasks, by class, by domain or by dataset."""

from .make import find_scenario, make_scenario
from .one_dataset import make_permutations, make_rotations, map_domains, order_classes, split
from .own import OwnScenario, is_own, locate_own
from .registry import SCENARIOS, ScenarioSpec, TrainingDefaults
from .scenario import SETTINGS, Provenance, Scenario, Setting, Task, get_provenance
from .sequences import DatasetTask, chain_datasets, merge_datasets
from .transforms import (
    blur_boundaries,
    draw_task_orders,
    hold_out_validation,
    order_drifting_stream,
    reorder_tasks,
)

__all__ = [
    "SCENARIOS",
    "SETTINGS",
    "DatasetTask",
    "OwnScenario",
    "Provenance",
    "Scenario",
    "ScenarioSpec",
    "Setting",
    "Task",
    "TrainingDefaults",
    "blur_boundaries",
    "chain_datasets",
    "draw_task_orders",
    "find_scenario",
    "get_provenance",
    "hold_out_validation",
    "is_own",
    "locate_own",
    "make_permutations",
    "make_rotations",
    "make_scenario",
    "map_domains",
    "merge_datasets",
    "order_classes",
    "order_drifting_stream",
    "reorder_tasks",
    "split",
]
