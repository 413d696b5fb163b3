"""Writes made-up spoken words as sequences of spectra: python make_words.py words.npz [WORDS].

A word is a sequence of five of ten sounds; a sound is a spectrum of 40 coefficients. Every
utterance has its own durations, its own speaker (a gain per coefficient) and noise.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

COEFFICIENTS, STEPS, SOUNDS, LENGTH = 40, 20, 10, 5
TRAIN, TEST = 400, 100  # utterances per word


def speak(
    word: NDArray[np.int64], spectra: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return one utterance: the spectrum at each time step, flattened."""
    inner = np.sort(rng.choice(np.arange(1, STEPS), LENGTH - 1, replace=False))
    durations = np.diff(np.concatenate([[0], inner, [STEPS]]))
    clean = spectra[np.repeat(word, durations)] * rng.normal(1, 0.3, COEFFICIENTS)
    return (clean + rng.normal(0, 1.5, clean.shape)).ravel().astype(np.float32)


def main() -> None:
    """Write x_train, y_train, x_test and y_test."""
    words = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    rng = np.random.default_rng(0)
    spectra = rng.normal(0, 1, (SOUNDS, COEFFICIENTS))
    vocabulary = [rng.integers(0, SOUNDS, LENGTH) for _ in range(words)]
    arrays = {}
    for split, count in (("train", TRAIN), ("test", TEST)):
        arrays[f"x_{split}"] = np.stack(
            [speak(word, spectra, rng) for word in vocabulary for _ in range(count)]
        )
        arrays[f"y_{split}"] = np.repeat(np.arange(words), count)
    np.savez_compressed(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
