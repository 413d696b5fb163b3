"""Events of a run: sent by whoever trains it, shown by whoever started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from .jobs import Job

__all__ = [
    "ExitEvent",
    "FailureEvent",
    "NoteEvent",
    "OnEvent",
    "ProgressEvent",
    "RunEvent",
    "SuccessEvent",
    "decode_event",
    "encode_event",
]


class ProgressEvent(msgspec.Struct, frozen=True, tag="progress"):
    """The fraction of a run that is done, and its live numbers where they are defined."""

    fraction: float
    task: str | None = None  # the one being learned
    current_accuracy: float | None = None
    min_acc: float | None = None


class NoteEvent(msgspec.Struct, frozen=True, tag="note"):
    """Something the user should know; the run continues."""

    text: str


class FailureEvent(msgspec.Struct, frozen=True, tag="failure"):
    """Why a run failed. The traceback is empty where the reason explains itself."""

    reason: str
    error_type: str = ""
    traceback: str = ""


class SuccessEvent(msgspec.Struct, frozen=True, tag="success"):
    """A run is finished, after this many seconds."""

    seconds: float


class ExitEvent(msgspec.Struct, frozen=True, tag="exit"):
    """The last event of a job: its exit code, or minus the signal that killed its process."""

    code: int


RunEvent = ProgressEvent | NoteEvent | FailureEvent | SuccessEvent | ExitEvent
if TYPE_CHECKING:
    OnEvent = Callable[[Job, RunEvent], None]  # called with each event of each job

_DECODER: msgspec.json.Decoder[RunEvent] = msgspec.json.Decoder(RunEvent)


def encode_event(event: RunEvent) -> bytes:
    """Return an event as JSON.

    Example:
        >>> encode_event(NoteEvent("resuming"))
        b'{"type":"note","text":"resuming"}'
    """
    return msgspec.json.encode(event)


def decode_event(data: bytes) -> RunEvent:
    """Return the event that `encode_event` was given.

    Example:
        >>> decode_event(encode_event(ExitEvent(0)))
        ExitEvent(code=0)
    """
    return _DECODER.decode(data)
