"""Ships the standard output of children to CloudWatch Logs as the awslogs driver does: in batches, from one thread."""

from __future__ import annotations

import os
import selectors
import threading
import time
import traceback
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from localcloud.aws.accounts import ACCOUNT, service_client
from localcloud.aws.batch.core import Core, log
from localcloud.rates import TokenBucket

LONGEST_LINE = 16 * 1024
"""Docker splits longer lines: https://docs.docker.com/engine/logging/drivers/awslogs/"""
FLUSH_SECONDS = 0.5
BATCH = 1000


class LogRefusedError(Exception):
    """The stream cannot be created. The message is what the awslogs driver would say."""


@dataclass
class Stream:
    """The destination of one child's lines.

    Attributes:
        role: ARN of the role whose permissions decide.
        pending: The stream does not exist yet; lines wait.
        closed: Set once the child's last line is sent.
    """

    group: str
    name: str
    role: str
    region: str
    pending: bool = False
    closed: threading.Event = field(default_factory=threading.Event)
    partial: bytes = b""
    events: list[dict[str, int | str]] = field(default_factory=list)

    @property
    def arn(self) -> str:
        return f"arn:aws:logs:{self.region}:{ACCOUNT}:log-group:{self.group}:log-stream:{self.name}"

    def feed(self, data: bytes) -> None:
        """Cut the data into lines. Empty data is the end of the stream and ends the last line."""
        lines = (self.partial + data).split(b"\n")
        self.partial = lines.pop()
        if not data or len(self.partial) > LONGEST_LINE:
            lines, self.partial = [*lines, self.partial], b""
        for line in filter(None, lines):
            for start in range(0, len(line), LONGEST_LINE):
                text = line[start : start + LONGEST_LINE].decode(errors="replace")
                self.events.append({"timestamp": int(time.time() * 1000), "message": text})


class LogShipper:
    """One thread that reads the pipes of all children."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = os.pipe()
        self._new: list[tuple[int, Stream]] = []
        self._stopped = False
        self._creations = TokenBucket(core.settings.log_stream_rate, time.monotonic())
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._loop, name="batch-logs", daemon=True)
        self._thread.start()

    def open(self, stream: Stream, own_group: bool, create_group: bool, blocking: bool) -> None:
        """Create the stream before the container starts, as the awslogs driver does.

        Args:
            stream: The stream to create.
            own_group: The definition names the group. Otherwise it is Batch's group, which AWS itself creates.
            create_group: The option ``awslogs-create-group``.
            blocking: If False, the container starts without waiting for the stream, which is created meanwhile.

        Raises:
            LogRefusedError: The role is not authorized, or the group does not exist.
        """
        try:
            self._create(stream, own_group, create_group)
        except LogRefusedError:
            if blocking:
                raise
            stream.pending = True

    def _create(self, stream: Stream, own_group: bool, create_group: bool) -> None:
        # An account may create so many streams per second in a region.
        if not self._creations.take(self._core.settings.log_stream_rate, time.monotonic()):
            raise LogRefusedError("ThrottlingException: Rate exceeded")
        logs, allowed = service_client("logs", stream.region), self._core.host.authorize
        group = f"arn:aws:logs:{stream.region}:{ACCOUNT}:log-group:{stream.group}"
        try:
            if not own_group or create_group:
                if own_group and not allowed(stream.role, "logs:CreateLogGroup", group, stream.region):
                    raise LogRefusedError(
                        f"AccessDeniedException: {stream.role} may not logs:CreateLogGroup on {group}"
                    )
                _ignore_existing(logs.create_log_group, logGroupName=stream.group)
            if not allowed(stream.role, "logs:CreateLogStream", stream.arn, stream.region):
                raise LogRefusedError(
                    f"AccessDeniedException: {stream.role} may not logs:CreateLogStream on {stream.arn}"
                )
            _ignore_existing(logs.create_log_stream, logGroupName=stream.group, logStreamName=stream.name)
        except ClientError as error:
            raise LogRefusedError(f"{error.response['Error']['Code']}: {error.response['Error']['Message']}") from None

    def follow(self, descriptor: int, stream: Stream) -> None:
        """Ship what arrives on the descriptor until its end. The shipper closes it."""
        os.set_blocking(descriptor, False)
        self._new.append((descriptor, stream))
        os.write(self._woken, b".")

    def close(self) -> None:
        """Ship what has arrived, and end the thread."""
        self._stopped = True
        os.write(self._woken, b".")
        self._thread.join(timeout=5)

    def _loop(self) -> None:
        flushed = time.monotonic()
        while not self._stopped:
            for key, _ in self._selector.select(FLUSH_SECONDS):
                if key.fd == self._wake:
                    os.read(self._wake, 4096)
                    while self._new:
                        descriptor, stream = self._new.pop()
                        self._selector.register(descriptor, selectors.EVENT_READ, stream)
                else:
                    self._read(key.fd, key.data)
            if time.monotonic() - flushed > FLUSH_SECONDS:
                flushed = time.monotonic()
                for key in list(self._selector.get_map().values()):
                    if key.data is not None:
                        self._flush(key.data)

    def _read(self, descriptor: int, stream: Stream) -> None:
        data = os.read(descriptor, 65536)
        stream.feed(data)
        if not data or len(stream.events) >= BATCH:
            self._flush(stream)
        if not data:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            stream.closed.set()

    def _flush(self, stream: Stream) -> None:
        if stream.pending:
            try:
                self._create(stream, True, False)
                stream.pending = False
            except LogRefusedError:
                return
        events, stream.events = stream.events, []
        if not events or not self._core.host.authorize(stream.role, "logs:PutLogEvents", stream.arn, stream.region):
            return
        try:
            service_client("logs", stream.region).put_log_events(
                logGroupName=stream.group, logStreamName=stream.name, logEvents=events
            )
        except Exception:
            log.warning("log lines of %s are lost:\n%s", stream.name, traceback.format_exc())


def _ignore_existing(call, **params: str) -> None:
    try:
        call(**params)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
            raise
