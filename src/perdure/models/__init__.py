"""Models: the networks of the papers, with one head or one per task.

What needs PyTorch is imported when it is first used: listing models does not.
"""

from typing import TYPE_CHECKING

from .._extras import import_on_use
from .registry import MODELS, describe_model

if TYPE_CHECKING:
    from .network import HIDDEN, Network, build, find_factory

__all__ = ["HIDDEN", "MODELS", "Network", "build", "describe_model", "find_factory"]

_MODULES = dict.fromkeys(("HIDDEN", "Network", "build", "find_factory"), "network")

if not TYPE_CHECKING:  # a type checker would take any name for an attribute
    __getattr__ = import_on_use(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
