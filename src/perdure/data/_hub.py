"""The Hugging Face hub: which files a dataset has at a commit, and their bytes."""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from .. import __version__
from ..record import InputError
from ..record.io.append import open_file
from ._files import hash_of
from ._parquet import needs
from .paths import SPLITS, layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Remote", "RemoteFile", "download", "endpoint", "look"]

DISK = {
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.ELOOP,
    errno.ENXIO,
}  # fmt: skip


SPARE = 64 << 20  # bytes that may come twice: a server may begin again


class RemoteFile(NamedTuple):
    """A file of a repository, as the hub describes it."""

    path: str
    size: int
    sha256: str


class Remote(NamedTuple):
    """A repository at one commit; `files` by the name that each gets here."""

    repository: str
    commit: str
    files: dict[str, RemoteFile]


def endpoint() -> str:
    """Return the address of the hub: $HF_ENDPOINT, or the public one."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def look(repository: str, patterns: tuple[str, str], revision: str | None) -> Remote:
    """Return the commit that a revision (None: the newest) stands for, and the files there."""
    with _hub(repository, revision) as hub:
        api = hub.HfApi(endpoint=endpoint())
        try:
            info = api.dataset_info(repository, revision=revision, files_metadata=True, timeout=30)
            listed = [(str(each.rfilename), each.lfs) for each in info.siblings or ()]
            commit = str(info.sha)
        except (KeyError, TypeError, AttributeError, UnicodeError):
            raise _strange(repository, "a description of the repository") from None
    if not re.fullmatch("[0-9a-f]{40,64}", commit):
        raise _strange(repository, "a commit")
    files: dict[str, RemoteFile] = {}
    for split, pattern in zip(SPLITS, patterns, strict=True):
        found = sorted((path, lfs) for path, lfs in listed if _fits(path, pattern))
        if not found:
            raise InputError(f"{repository}: has no {pattern} at commit {commit[:12]}")
        for k, (path, lfs) in enumerate(found):
            size, sha256 = getattr(lfs, "size", None), getattr(lfs, "sha256", None)
            if not (
                isinstance(size, int) and size > 0 and re.fullmatch("[0-9a-f]{64}", str(sha256))
            ):
                raise _strange(repository, f"size and sha256 of {path}")
            shard = "" if len(found) == 1 else f"-{k:05}-of-{len(found):05}"
            files[f"{split}{shard}.parquet"] = RemoteFile(path, size, str(sha256))
    return Remote(repository, commit, files)


def download(remote: Remote, file: RemoteFile, to: Path, advance: Callable[[int], None]) -> None:
    """Write a file of the hub; what an earlier download left in `to` is gone on from.

    A file of another size or hash than the hub says is removed, and InputError raised.
    """
    have = to.stat().st_size if to.exists() else 0
    if have > file.size:
        to.unlink()
        have = 0
    advance(have)
    with _hub(remote.repository, remote.commit) as hub, _appended(to) as out:
        url = hub.hf_hub_url(
            remote.repository, file.path, repo_type="dataset", revision=remote.commit,
            endpoint=endpoint(),
        )  # fmt: skip
        if have < file.size:
            # Not hf_hub_download: it throws away what an interrupted download had got.
            _get(hub, url, out, have, file.size, advance)
    if to.stat().st_size != file.size or (is_now := hash_of(to)) != file.sha256:
        size = to.stat().st_size
        to.unlink()
        what = f"{size:,} bytes" if size != file.size else f"sha256 {is_now[:16]}…"
        expected = f"{file.size:,} bytes" if size != file.size else f"{file.sha256[:16]}…"
        raise InputError(
            f"{remote.repository}: {file.path} came with {what}, expected {expected}; "
            "it was thrown away, fetch again"
        )


def _appended(to: Path) -> BinaryIO:
    """Return a file to append to, never the one that a link leads to: caches may be shared."""
    return os.fdopen(open_file(to, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def _get(
    hub: Any, url: str, out: BinaryIO, have: int, size: int, advance: Callable[[int], None]
) -> None:
    headers = hub.utils.build_hf_headers(library_name="perdure", library_version=__version__)
    try:
        hub.file_download.http_get(
            url, out, resume_size=have, headers=headers, expected_size=size,
            _tqdm_bar=_Bar(advance, size),
        )  # fmt: skip
    except OSError as error:
        if type(error) is not OSError or error.errno is not None:
            raise  # else the file ended too early or too late, which `download` judges


class _Bar:
    """What huggingface_hub tells of its progress; stops a hub that sends without end."""

    def __init__(self, advance: Callable[[int], None], size: int) -> None:
        self._advance, self._left = advance, size + SPARE

    def update(self, count: int) -> None:
        self._left -= max(count, 0)
        if self._left < 0:
            raise OSError("more bytes came than the file has")  # which `download` judges
        self._advance(count)


def _fits(path: str, pattern: str) -> bool:
    # The pattern's star would match a slash, and so a path that leads elsewhere.
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


@contextmanager
def _hub(repository: str, revision: str | None) -> Iterator[Any]:
    """Give the huggingface_hub package, telling nothing of this machine; errors in one line."""
    try:
        import huggingface_hub as hub
        import huggingface_hub.constants
        import huggingface_hub.file_download
        import huggingface_hub.utils.logging
    except ImportError:
        raise needs("huggingface_hub") from None
    logging: Any = hub.utils.logging
    telemetry, verbosity = hub.constants.HF_HUB_DISABLE_TELEMETRY, logging.get_verbosity()
    hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    logging.set_verbosity_error()
    # httpx or requests, whichever this version uses, with all that can fail on the way.
    failed: Any = (hub.errors.HfHubHTTPError.__bases__[0], OSError)
    try:
        yield hub
    except failed as error:
        raise _explained(hub.errors, error, repository, revision) from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise _strange(repository, "JSON") from None
    finally:
        hub.constants.HF_HUB_DISABLE_TELEMETRY = telemetry
        logging.set_verbosity(verbosity)


def _explained(errors: Any, error: Exception, repository: str, revision: str | None) -> InputError:
    """Return in one line why the hub did not give what was asked, and what to do."""
    at, status = endpoint(), getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return InputError(
            f"{repository}: access must be granted first: accept its terms at "
            f"{at}/datasets/{repository}, then set HF_TOKEN or run `hf auth login`"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return InputError(
            f"{repository}: revision is {revision!r:.60}, expected one of its branches, tags or "
            f"commits; see {at}/datasets/{repository}/commits/main"
        )
    if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403):
        return InputError(  # the hub says 401 of what does not exist, too
            f"{repository}: not found at {at}, or closed to you ({status}): if it needs a login, "
            "set HF_TOKEN or run `hf auth login`; if a token is set, check it; or provide "
            f"{layout('NAME')} in a folder named by PERDURE_DATA"
        )
    if isinstance(error, errors.OfflineModeIsEnabled):
        return InputError(f"{repository}: HF_HUB_OFFLINE is set; unset it, or set PERDURE_DATA")
    if status is not None:
        return InputError(f"{repository}: {at} answered {status}; try again later")
    if isinstance(error, OSError) and error.errno in DISK:
        return InputError(
            f"{error.filename or 'the cache'}: {(error.strerror or '').lower()}; make room or "
            "rights, or set PERDURE_CACHE to another folder; a partial download is kept"
        )
    why = (str(error) or type(error).__name__).splitlines()[0]
    return InputError(
        f"{repository}: the connection to {at} failed ({why:.120}); check the network and fetch "
        "again, which goes on from where it stopped, or set PERDURE_DATA to a local mirror"
    )


def _strange(repository: str, what: str) -> InputError:
    return InputError(
        f"{repository}: {endpoint()} did not answer as a hub does, expected {what}; check "
        "HF_ENDPOINT and whether a login page stands between"
    )
