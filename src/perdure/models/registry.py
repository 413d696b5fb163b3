"""The models by name. Importing this module does not import PyTorch."""

from __future__ import annotations

from .._suggestions import suggest_names
from ..record import InputError

__all__ = ["MODELS", "describe_model", "unknown_model"]

MODELS = {
    "mlp": "perdure.models.mlp:mlp",
    "resnet18-slim": "perdure.models.resnet18_slim:resnet18_slim",
    "zenke-conv": "perdure.models.zenke_conv:zenke_conv",
    "wide-vgg9": "perdure.models.wide_vgg9:wide_vgg9",
    "efficientnet-b1": "perdure.models.efficientnet_b1:efficientnet_b1",
    "speech-mlp": "perdure.models.mlp:speech_mlp",
    "embedding-bag": "perdure.models.embedding_bag:embedding_bag",
}

ABOUT = {
    "mlp": "two hidden layers of 400 ReLU",
    "resnet18-slim": "ResNet-18 with 20 filters instead of 64 (Lopez-Paz & Ranzato 2017)",
    "zenke-conv": "four convolutions, two dense layers, dropout (Zenke et al. 2017)",
    "wide-vgg9": "VGG with six convolutions, BatchNorm, three dense layers (De Lange et al. 2021)",
    "efficientnet-b1": "inverted bottlenecks with squeeze-excitation (Tan & Le 2019)",
    "speech-mlp": "one hidden layer of 1024 ReLU, for speech features",
    "embedding-bag": "the mean of token embeddings, one hidden layer of 128 ReLU, for text",
}


def describe_model(name: str) -> str:
    """Return a one-line description of a model.

    Example:
        >>> describe_model("mlp")
        'two hidden layers of 400 ReLU'
        >>> describe_model("mine:network")
        'your own, from mine:network'
    """
    if name in ABOUT:
        return ABOUT[name]
    if ":" in name:
        return f"your own, from {name}"
    raise unknown_model(name)


def unknown_model(name: str) -> InputError:
    """Return the error for a name that no model has."""
    known = f"{', '.join(MODELS)}, or your own as module:name"
    return InputError(f"model is {name!r:.60}; {suggest_names(name, MODELS)}expected {known}")
