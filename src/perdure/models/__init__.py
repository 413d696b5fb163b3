"""Models: the networks of the papers, with one head or one per task."""

from typing import TYPE_CHECKING

from .registry import MODELS, describe_model

if TYPE_CHECKING:
    from ._build import build
    from ._factory import find_factory
    from .network import HIDDEN, Network

__all__ = ["HIDDEN", "MODELS", "Network", "build", "describe_model", "find_factory"]

_MODULES = {
    "HIDDEN": "network",
    "Network": "network",
    "build": "_build",
    "find_factory": "_factory",
}


def __getattr__(name: str) -> object:
    """Import what needs PyTorch when it is first used: listing models does not."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from .._extras import install_hint

        raise ModuleNotFoundError(
            f"perdure.models.{name} needs PyTorch: {install_hint('train')}", name="torch"
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
