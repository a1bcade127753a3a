"""The keeper of a local run: it forks the workers, hands chunks out, replaces workers that die, and ends it all."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from tidemill.descriptor import WorkerExit
from tidemill.services.local.lease import Run, deaths_of, receive, send
from tidemill.worker.local.local_worker import worker_main
from tidemill.worker.machine.stop import SIGNAL_SECONDS
from tidemill.worker.machine.usage import die_with_parent, end_child, end_children, forked, own_children

DELIVERIES = 10
"""How often in a row a chunk may be handed to a worker that ends without an outcome of it, as on AWS Batch. Requested
reclaims do not count."""
BROKEN_PAUSE = 1.0
"""Before a worker that died is replaced; twice as long each time that workers cannot even start, or lose the store."""
FAILURES = 5
"""Failures in a row that end the run: the cause is the store, the scratch folder or this machine."""
SILENT_SECONDS = 60.0
"""A worker that holds a chunk and stays silent this long is frozen (stopped by a signal, or its store hangs)."""
DRAIN_SECONDS = SIGNAL_SECONDS + 5.0
_TICK = 0.5


@dataclass
class WorkerProcess:
    """A worker, as the keeper sees it."""

    number: int
    pid: int
    socket: socket.socket
    leased: list[tuple[int, int]]
    seen: float
    """When it last said something, or was given something."""
    waits: bool = False
    served: bool = False
    """True if it was ever given a chunk."""
    reclaimed: bool = False
    error: str = ""
    """The last error that it told of."""


def keeper_main(client: socket.socket) -> int:
    try:
        first, descriptors, *_ = socket.recv_fds(client, 1, 1)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if not first:
            return 0
        stream = client.makefile("rb")
        told = json.loads(first + stream.readline())
    except (ValueError, OSError):
        return 1
    run = Run(**{**told, "chunks": [tuple(pair) for pair in told["chunks"]]})
    keeping = Keeper(run, client, descriptors)
    try:
        keeping.work()
        keeping.tell({"reclaimed": keeping.reclaimed, "died": keeping.died, "error": keeping.error})
    finally:
        end_children()
    return 0


class Keeper:
    """Hands the chunks of a run to its workers, and holds descriptors such as the job's lock."""

    def __init__(self, run: Run, client: socket.socket, held: list[int]) -> None:
        self._run, self._client, self._held = run, client, held
        self._id = f"{os.getpid():x}-{int(time.time()):x}"
        self._waiting = deque(run.chunks)
        self._open = set(run.chunks)
        self._deliveries = dict.fromkeys(run.chunks, 0)
        self._processes: dict[int, WorkerProcess] = {}
        self._started = 0
        self._stopping_at: float | None = None
        self._start_at = 0.0
        self._reclaim_at = time.monotonic() + (run.reclaim_seconds or 0)
        self._failures = self._failing_from = 0
        self.reclaimed = self.died = 0
        self.error = ""

    def tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._client.sendall(json.dumps(message).encode() + b"\n")

    def work(self) -> None:
        while True:
            self._fill()
            if not self._processes and (not self._open or self._stopping_at is not None):
                return
            sockets = {process.socket: process for process in self._processes.values()}
            listened = [self._client, *sockets] if self._stopping_at is None else list(sockets)
            for ready in select.select(listened, [], [], _TICK)[0]:
                if ready is self._client:
                    self._told()
                else:
                    self._serve(sockets[ready])
            self._reap()
            self._end_silent()
            self._reclaim()
            if self._stopping_at is not None and time.monotonic() > self._stopping_at:
                self._signal(signal.SIGKILL)

    def _told(self) -> None:
        message = self._client.recv(64)
        self._stopping_at = time.monotonic() + (DRAIN_SECONDS if message else 0.0)
        # A client that is gone was killed: what it started ends at once.
        self._signal(signal.SIGTERM if message else signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._processes:
            os.kill(pid, number)

    # ---- workers ------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        if self._stopping_at is not None or time.monotonic() < self._start_at:
            return
        wanted = min(self._run.workers, len(self._open))
        while len(self._processes) < wanted:
            self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number, self._started = self._started, self._started + 1
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(keeper)
            for process in self._processes.values():
                process.socket.close()
            ours.close()
            self._client.close()
            forked(lambda: worker_main(self._run, f"{self._id}-{number}", theirs))
        theirs.close()
        self._processes[pid] = WorkerProcess(number, pid, ours, [], time.monotonic())

    def _serve(self, process: WorkerProcess) -> None:
        message = receive(process.socket)
        if message is None:
            # A worker's socket closes when it ends.
            self._ended(process, os.waitpid(process.pid, 0)[1])
        elif message["say"] == "lease":
            process.waits = True
            self._give(process)
            if process.waits:
                send(process.socket, {"later": True})
        else:
            self._hear(process, message)
            self._give_all()

    def _hear(self, process: WorkerProcess, message: dict[str, Any]) -> None:
        """Handle any message other than a request for a chunk."""
        process.seen = time.monotonic()
        if message["say"] == "error":
            process.error = message["text"]
            return
        chunk = message["round"], message["chunk"]
        if message["say"] in ("progress", "ack"):
            self._deliveries[chunk] = self._failures = 0
        if message["say"] in ("release", "ack") and chunk in process.leased:
            process.leased.remove(chunk)
            if message["say"] == "ack":
                self._open.discard(chunk)
            else:
                self._back(chunk, counts=not process.reclaimed and self._stopping_at is None)

    def _back(self, chunk: tuple[int, int], *, counts: bool) -> None:
        """A worker returns a chunk. Another gets it next, unless it was delivered in vain too often."""
        self._deliveries[chunk] -= not counts
        if self._deliveries[chunk] >= DELIVERIES:
            self._open.discard(chunk)
            self.tell({"note": f"chunk {chunk[1]} was given up after {DELIVERIES} deliveries without an outcome"})
        else:
            self._waiting.appendleft(chunk)

    def _give_all(self) -> None:
        for process in self._processes.values():
            if process.waits:
                self._give(process)

    def _give(self, process: WorkerProcess) -> None:
        if self._waiting:
            chunk = self._waiting.popleft()
            self._deliveries[chunk] += 1
            process.leased.append(chunk)
            process.waits, process.served, process.seen = False, True, time.monotonic()
            given = {"job": self._run.job, "round": chunk[0], "chunk": chunk[1]}
            send(
                process.socket,
                {**given, "delivery": self._deliveries[chunk], "run": self._id, "worker": process.number},
            )
        elif not self._open:
            process.waits = False
            send(process.socket, {"end": True})

    def _reap(self) -> None:
        """Take in workers that ended, and end what they left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            if pid in self._processes:
                self._ended(self._processes[pid], status)
        for pid in own_children() - self._processes.keys():
            end_child(pid)

    def _ended(self, process: WorkerProcess, status: int) -> None:
        del self._processes[process.pid]
        process.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            # Its last messages.
            while (message := receive(process.socket)) is not None:
                if message["say"] != "lease":
                    self._hear(process, message)
        process.socket.close()
        code = os.waitstatus_to_exitcode(status)
        expected = process.reclaimed or self._stopping_at is not None or not self._open
        if code == WorkerExit.STOPPED:
            self.error = process.error
            self._stop()
        elif code not in (WorkerExit.DONE, WorkerExit.RECLAIMED) and not expected:
            self._died(process, code)
        for chunk in process.leased:
            self._back(chunk, counts=not expected)
        self._give_all()

    def _died(self, process: WorkerProcess, code: int) -> None:
        """A worker died. If it held a chunk and a signal ended it, an item may be the cause: the ledger counts that.
        Otherwise the next worker is likely to fail too.
        """
        self.died += 1
        if process.error and self.died == 1:
            self.tell({"note": f"worker {process.number} ended, and another takes its place: {process.error}"})
        with contextlib.suppress(OSError), deaths_of(self._run.logs).open("a") as file:
            file.write(f"{self._id}-{process.number}\n")
        now = time.monotonic()
        if now < self._start_at:
            # A common cause fails all workers at once.
            return
        pause = BROKEN_PAUSE
        if code > 0 or not process.served:
            pause *= 2**self._failures
            if not self._failures:
                self._failing_from = self._started
            self._failures += 1
            # One that has started since has done nothing yet: where all fail, another one always holds a chunk.
            at_work = any(one.leased and one.number < self._failing_from for one in self._processes.values())
            if self._failures >= FAILURES and not at_work:
                self.error = process.error or f"worker {process.number} ended with exit code {code}"
                self._stop()
        self._start_at = now + min(pause, 2**FAILURES)

    def _end_silent(self) -> None:
        """End a worker that holds a chunk and says nothing, and give what it had to another. Its late outcomes, should
        it survive, do no harm: the first record wins."""
        now = time.monotonic()
        for process in [process for process in self._processes.values() if process.leased]:
            if self._stopping_at is None and now > process.seen + SILENT_SECONDS:
                what = f"worker {process.number} (process {process.pid}) has said nothing for {SILENT_SECONDS:.0f} s"
                self.tell({"note": f"{what}: it is ended, and another continues its chunks"})
                del self._processes[process.pid]
                process.socket.close()
                end_child(process.pid)
                for chunk in process.leased:
                    self._back(chunk, counts=False)
                self._give_all()

    def _stop(self) -> None:
        if self._stopping_at is None:
            self._stopping_at = time.monotonic() + DRAIN_SECONDS
            self._signal(signal.SIGTERM)

    def _reclaim(self) -> None:
        if not self._run.reclaim_seconds or self._stopping_at is not None or time.monotonic() < self._reclaim_at:
            return
        self._reclaim_at = time.monotonic() + self._run.reclaim_seconds
        there = [process for process in self._processes.values() if not process.reclaimed]
        if there:
            process = random.choice(there)
            process.reclaimed = True
            self.reclaimed += 1
            os.kill(process.pid, signal.SIGTERM)
