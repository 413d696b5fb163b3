"""The Hugging Face hub: which files a dataset has at a commit, and their download.

pins.json has the reviewed commit of each repository with the size and SHA-256 of its files. `make
pins` writes it once; from then on other files are rejected before anything is downloaded.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from .. import __version__
from ..record import InputError
from ..record.io.folder import open_file
from ._parquet import missing_package
from .paths import SPLITS, compute_sha256, describe_layout
from .registry import DATASETS, DatasetInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

__all__ = [
    "RemoteDataset",
    "RemoteFile",
    "check_offer",
    "download",
    "find_pin",
    "get_endpoint",
    "list_files",
]

DISK_ERRORS = {
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.ELOOP,
    errno.ENXIO,
}  # fmt: skip
CHUNK_BYTES = 10 << 20
MAX_RETRIES = 5  # in a row, without receiving anything
TIMEOUT_SECONDS = 30

PINS_FILE = Path(__file__).with_name("pins.json")
MAX_FILES = 100  # per dataset


class RemoteFile(NamedTuple):
    """A file of a repository, as the hub describes it."""

    path: str
    size: int
    sha256: str


class RemoteDataset(NamedTuple):
    """A repository at one commit; `files` by the names that they get locally."""

    repository: str
    commit: str
    files: dict[str, RemoteFile]


def get_endpoint() -> str:
    """Return the address of the hub: $HF_ENDPOINT, or the public one."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def list_files(repository: str, patterns: tuple[str, str], revision: str | None) -> RemoteDataset:
    """Return the commit of a revision (None for the newest) and its files that match."""
    with _open_hub(repository, revision) as hub:
        api = hub.HfApi(endpoint=get_endpoint())
        try:
            info = api.dataset_info(
                repository, revision=revision, files_metadata=True, timeout=TIMEOUT_SECONDS
            )
            listed = [(str(file.rfilename), file.lfs) for file in info.siblings or ()]
            commit = str(info.sha)
        except (KeyError, TypeError, AttributeError, UnicodeError):
            raise _unexpected_answer(repository, "a description of the repository") from None
    if not re.fullmatch("[0-9a-f]{40,64}", commit):
        raise _unexpected_answer(repository, "a commit")
    files: dict[str, RemoteFile] = {}
    for split, pattern in zip(SPLITS, patterns, strict=True):
        matches = sorted((path, lfs) for path, lfs in listed if _matches(path, pattern))
        if not matches:
            raise InputError(f"{repository}: has no {pattern} at commit {commit[:12]}")
        for k, (path, lfs) in enumerate(matches):
            size, sha256 = getattr(lfs, "size", None), str(getattr(lfs, "sha256", None))
            if not (isinstance(size, int) and size > 0 and re.fullmatch("[0-9a-f]{64}", sha256)):
                raise _unexpected_answer(repository, f"size and sha256 of {path}")
            shard = "" if len(matches) == 1 else f"-{k:05}-of-{len(matches):05}"
            files[f"{split}{shard}.parquet"] = RemoteFile(path, size, sha256)
    return RemoteDataset(repository, commit, files)


def download(
    remote: RemoteDataset, file: RemoteFile, target: Path, advance: Callable[[int], None]
) -> None:
    """Write a file of the hub to `target`, resuming from what an earlier download left there.

    `advance` is called with the number of bytes received (negative if the download restarts). A
    file whose size or hash differs from what the hub announced is removed, and InputError raised.
    """
    if target.exists() and target.stat().st_size > file.size:
        target.unlink()
    with _open_hub(remote.repository, remote.commit) as hub, _open_for_append(target) as out:
        advance(out.tell())
        url = hub.hf_hub_url(
            remote.repository, file.path, repo_type="dataset", revision=remote.commit,
            endpoint=get_endpoint(),
        )  # fmt: skip
        _append_rest(hub, url, out, file.size, advance)
    size = target.stat().st_size
    sha256 = compute_sha256(target) if size == file.size else ""
    if sha256 == file.sha256:
        return
    target.unlink()
    received = f"sha256 {sha256[:16]}…" if sha256 else f"{size:,} bytes"
    expected = f"{file.sha256[:16]}…" if sha256 else f"{file.size:,} bytes"
    raise InputError(
        f"{remote.repository}: received {file.path} with {received}, expected {expected}; it was "
        "discarded, fetch again"
    )


def _open_for_append(path: Path) -> BinaryIO:
    """Return a file to append to, but never one behind a link: caches may be shared."""
    return os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def _append_rest(
    hub: ModuleType, url: str, out: BinaryIO, size: int, advance: Callable[[int], None]
) -> None:
    """Append the rest of a file, at most one chunk more than `size`, which `download` rejects.

    Not `hf_hub_download`: it does not bound what a dishonest server may send, and an interrupted
    download cannot be resumed from the middle of a file in a folder that we control.
    """
    base = hub.utils.build_hf_headers(library_name="perdure", library_version=__version__)
    retries = MAX_RETRIES
    while (start := out.tell()) < size:
        headers = {**base, "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with hub.get_session().stream(
                "GET", url, headers=headers, timeout=TIMEOUT_SECONDS, follow_redirects=True
            ) as response:
                hub.utils.hf_raise_for_status(response)
                if start and response.status_code == 200:  # the server ignores ranges
                    out.truncate(0)
                    advance(-start)
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    out.write(chunk)
                    advance(len(chunk))
                    retries = MAX_RETRIES
                    if out.tell() > size:
                        return
            return
        except _http_error(hub) as error:
            if isinstance(error, hub.errors.HfHubHTTPError) or not retries:
                raise
            retries -= 1
            time.sleep(1)


def _matches(path: str, pattern: str) -> bool:
    # The star of a pattern would also match a slash, and so a path in another folder.
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def _http_error(hub: ModuleType) -> type[Exception]:
    """Return the base class of all errors of the HTTP library that huggingface_hub uses."""
    base: type[Exception] = hub.errors.HfHubHTTPError.__bases__[0]
    return base


@contextmanager
def _open_hub(repository: str, revision: str | None) -> Iterator[ModuleType]:
    """Yield the huggingface_hub package without telemetry; its errors become InputError."""
    try:
        import huggingface_hub as hub
        import huggingface_hub.constants
        import huggingface_hub.utils.logging
    except ImportError:
        raise missing_package("huggingface_hub") from None
    # The constant is what HF_HUB_DISABLE_TELEMETRY sets; tests fail if it has no effect any more.
    logging: ModuleType = hub.utils.logging
    telemetry, verbosity = hub.constants.HF_HUB_DISABLE_TELEMETRY, logging.get_verbosity()
    hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    logging.set_verbosity_error()
    try:
        yield hub
    except (_http_error(hub), OSError) as error:
        raise _explain(hub, error, repository, revision) from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise _unexpected_answer(repository, "JSON") from None
    finally:
        hub.constants.HF_HUB_DISABLE_TELEMETRY = telemetry
        logging.set_verbosity(verbosity)


def _explain(
    hub: ModuleType, error: Exception, repository: str, revision: str | None
) -> InputError:
    errors, endpoint = hub.errors, get_endpoint()
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return InputError(
            f"{repository}: access must be granted first: accept its terms at "
            f"{endpoint}/datasets/{repository}, then set HF_TOKEN or run `hf auth login`"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return InputError(
            f"{repository}: revision is {revision!r:.60}, expected one of its branches, tags or "
            f"commits; see {endpoint}/datasets/{repository}/commits/main"
        )
    if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403):
        return InputError(  # the hub also answers 401 for what does not exist
            f"{repository}: not found at {endpoint}, or not accessible ({status}): if it needs a "
            "login, set HF_TOKEN or run `hf auth login`; if a token is set, check it; or provide "
            f"{describe_layout('NAME')} in a folder named by PERDURE_DATA"
        )
    if isinstance(error, errors.OfflineModeIsEnabled):
        return InputError(f"{repository}: HF_HUB_OFFLINE is set; unset it, or set PERDURE_DATA")
    if status is not None:
        return InputError(f"{repository}: {endpoint} answered {status}; try again later")
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return InputError(
            f"{error.filename or 'the cache'}: {(error.strerror or '').lower()}; free disk space "
            "or fix permissions, or set PERDURE_CACHE to another folder; a partial download is kept"
        )
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return InputError(
        f"{repository}: the connection to {endpoint} failed ({reason:.120}); check the network and "
        "fetch again, which resumes the download, or set PERDURE_DATA to a local mirror"
    )


def _unexpected_answer(repository: str, expected: str) -> InputError:
    return InputError(
        f"{repository}: {get_endpoint()} did not answer like a hub, expected {expected}; check "
        "HF_ENDPOINT and whether a login page intercepts the request"
    )


@cache
def _read_pins() -> dict[str, RemoteDataset]:
    pins = json.loads(PINS_FILE.read_bytes())
    return {
        repository: RemoteDataset(
            repository, pin["commit"], {n: RemoteFile(*file) for n, file in pin["files"].items()}
        )
        for repository, pin in pins.items()
    }


def find_pin(repository: str) -> RemoteDataset | None:
    """Return the pinned commit and files of a repository, or None if it is not pinned."""
    return _read_pins().get(repository)


def check_offer(remote: RemoteDataset, info: DatasetInfo) -> None:
    """Raise if the hub offers other files than pinned, or more bytes than the dataset can have."""
    pin = find_pin(remote.repository)
    if pin is not None and remote.commit == pin.commit:
        for name in sorted({*remote.files, *pin.files}):
            offered, expected = remote.files.get(name), pin.files.get(name)
            if offered != expected:
                raise InputError(
                    f"{remote.repository}: the hub offers {_describe(offered)} as {name}, expected "
                    f"{_describe(expected)}; nothing was downloaded, check HF_ENDPOINT"
                )
    total, limit = sum(file.size for file in remote.files.values()), max_dataset_bytes(info)
    count = len(remote.files)
    if total > limit or count > MAX_FILES:
        raise InputError(
            f"{remote.repository}: the hub offers {count} files of {total:,} bytes, expected at "
            f"most {MAX_FILES} of {limit:,}; nothing was downloaded, check HF_ENDPOINT"
        )


def max_dataset_bytes(info: DatasetInfo) -> int:
    """Return an upper bound of the size of a dataset's files.

    Example:
        >>> max_dataset_bytes(DATASETS["mnist"])
        181440000
    """
    channels, height, width = info.shape
    image_bytes = info.image_bytes or 2 * channels * height * width + 1024
    return ((info.train or 0) + (info.test or 0)) * image_bytes


def _describe(file: RemoteFile | None) -> str:
    return "nothing" if file is None else f"{file.size:,} bytes with sha256 {file.sha256[:16]}…"


def main() -> None:
    """Write pins.json with what the hub offers today for every named dataset."""
    pins = {}
    for info in DATASETS.values():
        if info.repository is not None and info.files is not None:
            remote = list_files(info.repository, info.files, None)
            check_offer(remote, info)
            pins[info.repository] = {"commit": remote.commit, "files": remote.files}
    PINS_FILE.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
