"""Names that are known, and what to do about those that are not here."""

from __future__ import annotations

import difflib

from ..record import InputError
from ._table import DATASETS, DatasetInfo
from .paths import cache_folder, layout, mirror_folder

__all__ = ["checked", "nowhere"]


def checked(name: str) -> DatasetInfo:
    """Return what is known of a dataset, or raise InputError naming those there are."""
    if name in DATASETS:
        return DATASETS[name]
    near = difflib.get_close_matches(str(name), DATASETS, n=3)
    near = near or [other for other in DATASETS if other.startswith(f"{name}-")]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise InputError(f"dataset is {name!r:.60}, expected one of {', '.join(DATASETS)}{hint}")


def nowhere(name: str) -> InputError:
    """Return the error for a dataset that is neither in the cache nor in a mirror."""
    info = DATASETS[name]
    mirror = mirror_folder()
    where = f"{cache_folder()} or {'PERDURE_DATA (not set)' if mirror is None else mirror}"
    own = f"a folder, named by PERDURE_DATA, with {layout(name)}"
    if info.repository is None and (info.cut is None or not DATASETS[info.cut.of].repository):
        return InputError(
            f"{name}: not in {where}, and not on the hub; provide {own}: {info.provide}"
        )
    return InputError(f"{name}: not in {where}; run `perdure data fetch {name}`, or provide {own}")
