"""The states of all global random generators."""

from __future__ import annotations

import random

import numpy as np
import torch

__all__ = ["RandomStates"]


class RandomStates:
    """The states of the global generators of Python, NumPy and PyTorch at its creation.

    Example:
        >>> states = RandomStates()
        >>> a = torch.rand(3)
        >>> states.restore()
        >>> torch.equal(a, torch.rand(3))
        True
    """

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None

    def restore(self) -> None:
        """Set all generators to these states."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002
        torch.set_rng_state(self._cpu)
        if self._mps is not None:
            torch.mps.set_rng_state(self._mps)
        for device, state in enumerate(self._cuda):
            # Setting even the same state makes cuDNN draw other dropout for recurrent layers.
            if not torch.equal(torch.cuda.get_rng_state(device), state):
                torch.cuda.set_rng_state(state, device)
