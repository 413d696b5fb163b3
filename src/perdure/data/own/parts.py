"""What a reader returns: the parts of a dataset as they were found, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_BYTES", "PART_NAMES", "InputKind", "Part", "Parts", "choose_parts"]

InputKind = Literal["images", "features", "tokens"]
MAX_BYTES = 8 << 30  # of all examples in memory
# The names of the training and of the test part; a validation part replaces a missing test part.
PART_NAMES = {
    "train": "train", "training": "train",
    "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
}  # fmt: skip


class Part(NamedTuple):
    """Examples, the label of each as it was written, and its task if the data states tasks."""

    x: NDArray[Any]
    y: NDArray[Any]
    task: NDArray[Any] | None = None


@dataclass
class Parts:
    """The parts of a dataset: `train` and, unless it has to be drawn, `test`.

    Attributes:
        train: The training part, or everything there is.
        test: The test part.
        kind: What the examples are, if the file says so.
        sha256: Digests of the files.
        notes: What the user should know.
    """

    train: Part
    test: Part | None
    kind: InputKind | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def choose_parts(found: dict[str, Part], notes: list[str]) -> tuple[Part, Part | None]:
    """Return the training and the test part of those that were found, by their names."""
    if "test" in found and "validation" in found:
        notes.append("the validation part is not used; the test part is evaluated")
    elif "validation" in found:
        notes.append("there is no test part; the validation part is evaluated")
    return found["train"], found.get("test", found.get("validation"))
