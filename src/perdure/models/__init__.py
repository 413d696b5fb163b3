"""Images in, a score for each class out: the networks of the papers, with one head or many."""

from typing import TYPE_CHECKING, Any

from .registry import MODELS, describe

if TYPE_CHECKING:
    from ._build import build
    from .network import HIDDEN, Network

__all__ = ["HIDDEN", "MODELS", "Network", "build", "describe"]

_LATER = {"HIDDEN": "network", "Network": "network", "build": "_build"}


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is first used: listing models does without."""
    if name in _LATER:
        from importlib import import_module

        try:
            return getattr(import_module(f".{_LATER[name]}", __name__), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ModuleNotFoundError(
                f"perdure.models.{name} needs PyTorch: pip install 'perdure[train]'", name="torch"
            ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
