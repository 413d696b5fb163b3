"""Devices to train on, and PyTorch's version: without importing PyTorch, which takes seconds."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .record import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

__all__ = ["count_gpus", "resolve_device", "torch_version", "use_tf32", "widest_float"]

DEVICE = re.compile(r"(cpu|cuda|mps)(?::(\d+))?")
VERSION_LINE = re.compile(r"^(\w+)(?:: [^=\n]+)? = '([^'\n]*)'", re.MULTILINE)


def resolve_device(name: str) -> str:
    """Return the name of a device that is available; "auto" is a CUDA device if there is one.

    Example:
        >>> resolve_device("cpu")
        'cpu'
    """
    if name == "auto":
        return "cuda" if count_gpus() else "cpu"
    parts = DEVICE.fullmatch(name)
    if parts is None:
        raise InputError(f"device is {name!r:.40}, expected cpu, cuda, cuda:1, mps or auto")
    kind, index = parts[1], int(parts[2] or 0)
    if kind == "cuda" and index >= (count := count_gpus()):
        raise InputError(
            f"device is {name!r}, and this machine has {count} CUDA devices; try `device='cpu'`"
        )
    if kind == "mps" and (index or not _has_mps()):
        raise InputError(
            f"device is {name!r}, and this machine or PyTorch has no such device (Metal on macOS); "
            "try `device='cpu'`"
        )
    return name


def widest_float(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on MPS, which has no float64.

    Example:
        >>> import torch
        >>> widest_float(torch.device("cpu")), widest_float(torch.device("mps"))
        (torch.float64, torch.float32)
    """
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


@contextmanager
def use_tf32(*, enabled: bool) -> Iterator[None]:
    """Compute float32 on CUDA in TF32, or without it, and restore PyTorch's settings at the end.

    By default PyTorch uses TF32 for convolutions and recurrent layers, not for matrix products.
    """
    import torch

    cudnn, matmul = cast("Any", torch.backends.cudnn), torch.backends.cuda.matmul
    name, value, settings = "allow_tf32", cast("Any", enabled), [cudnn, matmul]
    try:
        _ = cudnn.allow_tf32, matmul.allow_tf32
    except RuntimeError:  # they were set by the names of PyTorch 2.9, and the older ones cannot be
        name, value = "fp32_precision", "tf32" if enabled else "ieee"
        settings = [cudnn.conv, cudnn.rnn, matmul]
    before = [getattr(setting, name) for setting in settings]
    try:
        for setting in settings:
            setattr(setting, name, value)
        yield
    finally:
        for setting, old in zip(settings, before, strict=True):
            setattr(setting, name, old)


def torch_version() -> str | None:
    """Return the version of PyTorch as `torch.__version__` has it; None if it is not installed."""
    if (torch := sys.modules.get("torch")) is not None:
        return str(torch.__version__)
    return _read_build().get("__version__")


def count_gpus() -> int:
    """Return how many CUDA devices PyTorch can use."""
    build = {} if "torch" in sys.modules else _read_build()
    if "torch" not in sys.modules and not build.keys() & {"cuda", "hip"}:
        return 0  # built for the CPU alone, or not installed
    count = _ask_driver() if "torch" not in sys.modules and "hip" not in build else None
    if count is None:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return count


def _has_mps() -> bool:
    if sys.platform != "darwin":
        return False
    import torch

    return torch.backends.mps.is_available()


def _read_build() -> dict[str, str]:
    """Return what torch/version.py says, by name; names that are None there are left out."""
    try:
        spec = find_spec("torch")
    except ValueError:  # it was replaced in `sys.modules`
        return {}
    if spec is None or spec.origin is None:
        return {}
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(VERSION_LINE.findall(text))


def _ask_driver() -> int | None:
    """Return the number of NVIDIA GPUs, as PyTorch itself counts them; None if it has to.

    NVML counts without creating a CUDA context, which forked processes could not use.
    """
    windows = sys.platform == "win32"
    try:
        nvml = ctypes.CDLL("nvml.dll" if windows else "libnvidia-ml.so.1")
    except OSError:
        return None if _can_load("nvcuda.dll" if windows else "libcuda.so.1") else 0
    count = ctypes.c_uint(0)
    if nvml.nvmlInit_v2() != 0 or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return None
    nvml.nvmlShutdown()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return count.value
    chosen = [part.strip() for part in visible.split(",") if part.strip()]
    if not all(part.isdecimal() for part in chosen) or len({*chosen}) < len(chosen):
        return None  # by UUID, or with -1, after which none is visible
    return next((k for k, part in enumerate(chosen) if int(part) >= count.value), len(chosen))


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
