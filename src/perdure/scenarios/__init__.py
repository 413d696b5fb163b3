"""Images to an ordered stream of tasks: by class, by domain, by dataset; published ones named."""

from .datasets import DatasetTask, sequence
from .domains import domains, permutations, rotations
from .named import SCENARIOS, ScenarioSpec, TrainingDefaults, find_scenario, make
from .scenario import SETTINGS, Scenario, Setting, Task, provenance
from .split import class_order, split
from .streams import blurred, drifting
from .validation import validation

__all__ = [
    "SCENARIOS",
    "SETTINGS",
    "DatasetTask",
    "Scenario",
    "ScenarioSpec",
    "Setting",
    "Task",
    "TrainingDefaults",
    "blurred",
    "class_order",
    "domains",
    "drifting",
    "find_scenario",
    "make",
    "permutations",
    "provenance",
    "rotations",
    "sequence",
    "split",
    "validation",
]
