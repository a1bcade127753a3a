"""An account: a cloud as one caller reaches it, with their own login."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidemill.clouds.clock import CloudClock
from tidemill.errors import CloudError
from tidemill.secrets.secret_store import SecretStore


@dataclass(frozen=True)
class LogLine:
    """One line that a worker or a user's program printed.

    Attributes:
        at: Seconds since the epoch.
        id: What tells the line from an equal one, where the cloud has such a thing.
        arrived: When the cloud received it, in seconds since the epoch; 0 where the cloud does not tell.
    """

    at: float
    message: str
    stream: str
    fields: dict[str, object] = field(default_factory=dict)
    id: str = ""
    arrived: float = 0.0

    @property
    def said(self) -> str:
        """The message itself, without what the worker writes around it."""
        return str(self.fields.get("message", self.message))


def ignore(text: str) -> None:
    """Tells nothing to anyone."""


@dataclass(frozen=True)
class LogSearch:
    """Which lines of a job a backend is asked for.

    Attributes:
        job: The job's id.
        items: Only lines of these items; None for every line.
        since: Seconds since the epoch.
        until: The same; None for all there are.
        text: Only lines whose message holds this. A hint that spares reading: a backend may return others too.
        regex: Only lines whose message matches, in Python's dialect. A hint as well.
        printed: Only lines that programs printed, none of the worker itself. A hint as well.
        limit: How many lines are wanted. A hint as well.
        arrived: Only lines that the cloud received at this time or later, where it tells. A hint as well.
        say: Is told what a person should know while they wait.
    """

    job: str
    items: frozenset[int] | None = None
    since: float = 0.0
    until: float | None = None
    text: str | None = None
    regex: str | None = None
    printed: bool = False
    limit: int | None = None
    arrived: float = 0.0
    say: Callable[[str], None] = ignore

    def has(self, line: LogLine) -> bool:
        """True if a line is of the job, the items and the time."""
        fields = line.fields
        return (
            fields.get("job") == self.job
            and (self.items is None or fields.get("item") in self.items)
            and self.since <= line.at
            and (self.until is None or line.at <= self.until)
        )


class Account(ABC):
    """A caller's name, the clock, the topics and the logs of a cloud. Every method may raise `CloudError`."""

    log_poll_seconds = 2.0
    """Between two looks for new log lines."""
    log_late_seconds = 60.0
    """How far back each of those looks goes: lines of different machines do not arrive in the order of their times."""

    def __init__(self) -> None:
        self.clock = CloudClock()
        self.ask: Callable[[], object] | None = None
        """Makes a call of a service for the time that its answer tells."""

    @abstractmethod
    def user(self) -> str:
        """The caller's name in the cloud, in a form that its queues accept."""

    def publish(self, topic: str, subject: str, text: str, fields: Mapping[str, str]) -> None:
        """Send a message to a topic, with its figures for programs."""
        raise CloudError(f"{topic} is a topic of another cloud.")

    def secrets(self) -> SecretStore | None:
        """Where the caller keeps secrets for jobs of the pipeline; None where it keeps nobody's."""
        return None

    @abstractmethod
    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        """Log lines of a job, oldest first."""

    def search_logs(self, search: LogSearch) -> Iterator[LogLine]:
        """The same for few lines of a whole job, where the cloud has something faster for them."""
        return self.logs(search)

    def stream_lines(self, streams: Sequence[str], search: LogSearch) -> Iterator[LogLine]:
        """Every line of some streams, where the cloud has such; the search's items, text and regex are not applied."""
        return iter(())

    def now(self) -> float:
        """Seconds since the epoch, by the cloud's clock where it tells."""
        return self.clock.now(self.ask)

    def at(self) -> datetime:
        """The same as a time: what clients write down and compare, wherever they are."""
        return datetime.fromtimestamp(self.now(), UTC)
