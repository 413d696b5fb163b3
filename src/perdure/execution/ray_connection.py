"""Connecting to a Ray cluster, or starting Ray on this machine."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .._extras import install_hint
from ..record import InputError
from .process_pool import count_cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .jobs import Job

__all__ = ["connect_to_ray", "shorten_error"]

CONNECT_SECONDS = 10.0  # for a cluster to answer


@contextmanager
def connect_to_ray(address: str, jobs: Sequence[Job]) -> Iterator[None]:
    """Be connected to Ray, and disconnect if this connected; Ray itself prints nothing.

    Args:
        address: Of a cluster that this machine belongs to; "auto" starts Ray here.
        jobs: The runs: Ray started here has as many CPUs as the largest of them needs.
    """
    try:
        import ray
        from ray._private import worker as ray_worker
    except ModuleNotFoundError:
        raise InputError(f"running on Ray needs ray: {install_hint('ray')}") from None
    if ray.is_initialized():
        yield
        return
    from ray.job_config import JobConfig

    here = address == "auto"
    cpus = None
    if here:
        cpus = max(count_cores(), *(job.config.threads for job in jobs))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    else:
        _check_address(address)
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Two private names of Ray; tests/test_on_ray.py fails if one of them goes away. A lost node
    # prints to our output even with log_to_driver=False, and Ray has its workers look for modules
    # in the driver's current directory first.
    logs_enabled = ray_worker._worker_logs_enabled  # noqa: SLF001
    ray_worker._worker_logs_enabled = False  # noqa: SLF001
    config = JobConfig()
    config._py_driver_sys_path = _EmptyList()  # noqa: SLF001
    try:
        try:
            ray.init(
                address="local" if here else address,
                num_cpus=cpus,
                include_dashboard=False if here else None,
                job_config=config,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
            reason = shorten_error(error)
            raise InputError(f"cannot connect to Ray at {address} ({reason})") from error
        yield
    finally:
        ray.shutdown()
        ray_worker._worker_logs_enabled = logs_enabled  # noqa: SLF001


def shorten_error(error: BaseException) -> str:
    """Return an error as a short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}{'…' if len(text) > 160 else ''}"


class _EmptyList(list[str]):
    """A list that stays empty."""

    def extend(self, _: Iterable[str]) -> None:
        """Add nothing."""


def _check_address(address: str) -> None:
    """Raise if nothing answers at an address: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(
            f"address is {address!r:.60}, expected auto or the host:port of a Ray cluster that "
            "this machine belongs to (`ray start --address=host:port` makes it join one)"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster answers at {address} ({error}); `ray start --head` starts one"
        ) from None
