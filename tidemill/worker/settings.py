"""Reads a worker's settings from its environment, and chooses the variables that a user's program sees."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import CallerError
from tidemill.version import __version__

OURS = "TIDEMILL_"
WAS = "TIDEMILL_WAS_"
"""Prefix of a variable's own value, where the worker's tree was started with another one (worker_image/entry)."""
ADDED = "TIDEMILL_ADDED"
"""Names that the container had not set and that the worker's tree was started with."""


@dataclass(frozen=True)
class Settings:
    """A worker's settings."""

    store: str
    """URI of the job store (`TIDEMILL_STORE`)."""
    region: str | None
    """AWS region of the store (`TIDEMILL_REGION`)."""
    scratch: Path
    """Folder of the machine that its containers share (`TIDEMILL_SCRATCH`)."""
    cache: str | None
    """Folder of the machine where programs keep what they fetch once (`TIDEMILL_CACHE`)."""
    notice: Path | None
    """File that a machine on AWS writes when it is being taken back (`TIDEMILL_NOTICE`), or None."""
    poll_seconds: float
    """How often a notice is looked for (`TIDEMILL_RECLAIM_POLL_SECONDS`, default 2)."""
    drain_seconds: float
    """How long after a notice a host may still be given work: until the ECS agent, which asks the metadata itself, has
    set it to DRAINING (`TIDEMILL_DRAIN_SECONDS`, default 15). Less when the notice leaves less than two minutes."""

    python: str = "python3"
    """The image's interpreter, for function items (`TIDEMILL_PYTHON`)."""
    whole_machine: bool = False
    """True if as many items run side by side as the container has room for (`TIDEMILL_SLOTS=machine`, and always where
    there is a subscription); otherwise as many as the job asks for, for whom the container was sized."""
    subscription: str | None = None
    """Pub/Sub subscription whose messages are chunks (`TIDEMILL_SUBSCRIPTION`); None on AWS Batch."""
    idle_seconds: float = 600.0
    """How long a machine that serves a subscription stays without work (`TIDEMILL_IDLE_SECONDS`)."""
    machine_until: float | None = None
    """When its age ends, in seconds since the epoch (`TIDEMILL_MACHINE_UNTIL`); None when it has no limit."""
    machine_since: float | None = None
    """When its life began, in seconds since the epoch (`TIDEMILL_MACHINE_SINCE`); None for when the worker starts."""
    alive_seconds: float = 300.0
    """How often a machine that serves a subscription says that it is alive (`TIDEMILL_ALIVE_SECONDS`)."""
    log: str | None = None
    """Log of Cloud Logging that lines go to in addition to stdout (`TIDEMILL_LOG`)."""
    item_log_kib: int = 64
    """KiB of an item's output that go to the log (`TIDEMILL_ITEM_LOG_KIB`, 1 to 1,048,576)."""
    queue: str = ""
    """The queue's name, for the log's entries (`TIDEMILL_QUEUE`)."""

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Settings:
        """Settings from an environment; `CallerError` for a value that cannot be used."""
        store = env.get("TIDEMILL_STORE")
        if not store:
            raise CallerError.about("TIDEMILL_STORE", store, "the URI of a job store", "Set it in the job definition.")
        _check_version(env.get("TIDEMILL_MIN_WORKER"))
        subscription = _name(env, "TIDEMILL_SUBSCRIPTION", "projects/<project>/subscriptions/<id>")
        return cls(
            store=store,
            region=env.get("TIDEMILL_REGION") or None,
            scratch=Path(env.get("TIDEMILL_SCRATCH") or Path(tempfile.gettempdir()) / "tidemill"),
            cache=env.get("TIDEMILL_CACHE") or None,
            notice=Path(env["TIDEMILL_NOTICE"]) if env.get("TIDEMILL_NOTICE") else None,
            poll_seconds=_seconds(env, "TIDEMILL_RECLAIM_POLL_SECONDS", 2),
            drain_seconds=_seconds(env, "TIDEMILL_DRAIN_SECONDS", 15),
            python=env.get("TIDEMILL_PYTHON") or "python3",
            whole_machine=_slots(env) or subscription is not None,
            subscription=subscription,
            idle_seconds=_seconds(env, "TIDEMILL_IDLE_SECONDS", 600, at_most=86_400),
            machine_until=_moment(env, "TIDEMILL_MACHINE_UNTIL"),
            machine_since=_moment(env, "TIDEMILL_MACHINE_SINCE"),
            alive_seconds=_seconds(env, "TIDEMILL_ALIVE_SECONDS", 300),
            log=_name(env, "TIDEMILL_LOG", "projects/<project>/logs/<id>"),
            item_log_kib=_kib(env, "TIDEMILL_ITEM_LOG_KIB", 64),
            queue=env.get("TIDEMILL_QUEUE", ""),
        )


def _check_version(oldest: str | None) -> None:
    """Refuse to work for a stack that needs a newer worker: it may read this one's exit codes as something else."""
    if oldest and _numbers(__version__) < _numbers(oldest):
        hint = "Put a newer tidemill into the image, or leave it out and set tidemill:worker_image."
        raise CallerError.about("TIDEMILL_MIN_WORKER", oldest, f"up to {__version__}, this worker's version", hint)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _slots(env: Mapping[str, str]) -> bool:
    slots = env.get("TIDEMILL_SLOTS") or "job"
    if slots not in ("job", "machine"):
        raise CallerError.about("TIDEMILL_SLOTS", slots, "job or machine", "Leave it out for job.")
    return slots == "machine"


def _name(env: Mapping[str, str], variable: str, form: str) -> str | None:
    """A full name of Google's, such as the stack sets."""
    name = env.get(variable)
    if name is not None and not re.fullmatch(re.sub(r"<\w+>", r"[^/\\s]+", form), name):
        raise CallerError.about(variable, name, form, "The stack sets it; run `pulumi up`.")
    return name


def _moment(env: Mapping[str, str], variable: str) -> float | None:
    text = env.get(variable)
    if not text:
        return None
    if not re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        allowed = "seconds since the epoch"
        raise CallerError.about(variable, text, allowed, "Leave it out for a machine without a limit.")
    return float(text)


def _seconds(env: Mapping[str, str], name: str, default: float, at_most: float = 600) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= at_most:
        raise CallerError.about(name, text, f"from 0.05 to {at_most:g} seconds", f"Leave it out for {default}.")
    return value


def _kib(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name) or str(default)
    if not re.fullmatch(r"\d{1,7}", text) or not 1 <= int(text) <= 1 << 20:
        raise CallerError.about(name, text, "a whole number of KiB, 1 to 1048576", f"Leave it out for {default}.")
    return int(text)


def child_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The container's original environment: everything but what is ours, and what we changed as it was."""
    added = env.get(ADDED, "").split()
    kept = {name: value for name, value in env.items() if not name.startswith(OURS) and name not in added}
    return kept | {name.removeprefix(WAS): value for name, value in env.items() if name.startswith(WAS)}
