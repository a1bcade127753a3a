"""Workers of a local run, and the keeper that stands behind them.

`tidemill run` is three kinds of processes. The *client* writes the job and shows how it goes. The *keeper*, its child,
forks the workers, hands chunks out, replaces workers that die, and is the reaper of everything that they leave behind:
when the client dies, however it dies, the keeper ends it all. A *worker* is the same loop as in a container.

The keeper is forked before anything has opened a store (a store brings threads, which do not survive a fork), so that
it and its workers share the client's memory. `kill -9` of everything leaves no lock and no state; a program that even
survived that is ended by the next worker, which finds it by the scratch folder of its dead worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidemill.descriptor import WorkerExit
from tidemill.errors import CallerError, StoreError
from tidemill.ledger import Ledger, names
from tidemill.store import Store, Stores
from tidemill.worker.consumption import adopt_orphans, die_with_parent, own_children
from tidemill.worker.leases.local import LocalLeases, receive, send
from tidemill.worker.loop import Worker
from tidemill.worker.output import say, write_to
from tidemill.worker.process import GRACE_SECONDS
from tidemill.worker.runners import PYTHON, Runners
from tidemill.worker.scratch import Scratch
from tidemill.worker.settings import child_environment
from tidemill.worker.staging import Staging
from tidemill.worker.stop import Stop, Why

DELIVERIES = 10
"""Of a chunk to workers that died with it, as on AWS Batch; reclaims that were asked for are not counted."""
BROKEN_PAUSE = 1.0
"""Before a worker that the store or the disk failed is replaced."""
DRAIN_SECONDS = GRACE_SECONDS + 5.0
_TICK = 0.5


@dataclass(frozen=True)
class Run:
    """What the keeper is told to do.

    Attributes:
        store: URI of the store.
        job: The job's id.
        chunks: (round, chunk) in the order in which they are handed out.
        workers: Processes side by side.
        scratch: Folder for scratch files.
        logs: Folder for what workers print.
        folder: Where modules are imported from.
        reclaim_seconds: Take a worker away that often, as a Spot market would; None for never.
        python: Interpreter of functions; None for `python3` on PATH.
    """

    store: str
    job: str
    chunks: list[tuple[int, int]]
    workers: int
    scratch: str
    logs: str
    folder: str
    reclaim_seconds: float | None = None
    python: str | None = None


class Keeper:
    """The client's handle on the keeper. Make it before any store is opened."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pid = os.fork()
        if self.pid == 0:
            self._socket.close()
            _forked(lambda: _keep(theirs))
        theirs.close()
        # Should the keeper be killed alone, what it kept comes to us.
        adopt_orphans()
        self._stream = self._socket.makefile("rb")
        self.ended = False
        self.reclaimed = 0
        self.died = 0

    def start(self, run: Run, lock: int) -> None:
        """Begin a run.

        Args:
            run: What to do.
            lock: Descriptor of the job's lock, which the keeper and its workers hold on to.
        """
        data = json.dumps(asdict(run)).encode() + b"\n"
        socket.send_fds(self._socket, [data[:1]], [lock])
        self._socket.sendall(data[1:])

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the run; says whether it came."""
        if not self.ended and select.select([self._socket], [], [], seconds)[0]:
            line = self._stream.readline()
            self.ended = True
            if line:
                said = json.loads(line)
                self.reclaimed, self.died = said["reclaimed"], said["died"]
        return self.ended

    def drain(self) -> None:
        """Let the workers finish writing what is done, and end."""
        with contextlib.suppress(OSError):
            self._socket.sendall(b"drain\n")

    def close(self) -> None:
        """End the keeper and what it keeps; nothing of the run is alive afterwards."""
        if self._stream.closed:
            return
        self._stream.close()
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        _end(own_children)


def _forked(main: Any) -> None:
    """Run `main` in a forked process, which never returns into its parent's program."""
    code = 1
    try:
        code = int(main())
    except BaseException as error:  # a traceback of a fork would be printed as the parent's
        print(f"tidemill: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


@dataclass
class _Process:
    """A worker, as the keeper sees it."""

    number: int
    pid: int
    socket: socket.socket
    leased: list[tuple[int, int]]
    waits: bool = False
    reclaimed: bool = False


def _keep(client: socket.socket) -> int:
    """The keeper."""
    # A terminal's Ctrl-C is the client's; it tells us what to do about it.
    os.setsid()
    adopt_orphans()
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
    keeping = _Keeping(run, client, descriptors)
    try:
        keeping.work()
        summary = {"reclaimed": keeping.reclaimed, "died": keeping.died}
        with contextlib.suppress(OSError):
            client.sendall(json.dumps(summary).encode() + b"\n")
    finally:
        _end(own_children)
    return 0


class _Keeping:
    def __init__(self, run: Run, client: socket.socket, held: list[int]) -> None:
        self._run, self._client, self._held = run, client, held
        self._id = f"{os.getpid():x}-{int(time.time()):x}"
        self._waiting = deque(run.chunks)
        self._open = set(run.chunks)
        self._deliveries = dict.fromkeys(run.chunks, 0)
        self._processes: dict[int, _Process] = {}
        self._started = 0
        self._stopping_at: float | None = None
        self._start_at = 0.0
        self._reclaim_at = time.monotonic() + (run.reclaim_seconds or 0)
        self.reclaimed = self.died = 0

    def work(self) -> None:
        """Until every chunk is done, or nothing more can be."""
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
            self._reclaim()
            if self._stopping_at is not None and time.monotonic() > self._stopping_at:
                self._signal(signal.SIGKILL)

    def _told(self) -> None:
        said = self._client.recv(64)
        self._stopping_at = time.monotonic() + (DRAIN_SECONDS if said else 0.0)
        # A client that is gone was killed: what it started goes with it, at once.
        self._signal(signal.SIGTERM if said else signal.SIGKILL)

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
            _forked(lambda: _work(self._run, f"{self._id}-{number}", theirs))
        theirs.close()
        self._processes[pid] = _Process(number, pid, ours, [])

    def _serve(self, process: _Process) -> None:
        message = receive(process.socket)
        if message is None:
            # A worker closes its socket by ending.
            self._ended(process, os.waitpid(process.pid, 0)[1])
        elif message["say"] == "lease":
            process.waits = True
            self._give(process)
        else:
            self._settled(process, (message["round"], message["chunk"]), message["say"] == "ack")

    def _settled(self, process: _Process, chunk: tuple[int, int], done: bool) -> None:
        if chunk in process.leased:
            process.leased.remove(chunk)
            self._open.discard(chunk) if done else self._waiting.appendleft(chunk)
        self._give_all()

    def _give_all(self) -> None:
        for process in self._processes.values():
            if process.waits:
                self._give(process)

    def _give(self, process: _Process) -> None:
        if self._waiting:
            chunk = self._waiting.popleft()
            self._deliveries[chunk] += 1
            process.leased.append(chunk)
            process.waits = False
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
            _kill(pid)

    def _ended(self, process: _Process, status: int) -> None:
        del self._processes[process.pid]
        process.socket.close()
        code = os.waitstatus_to_exitcode(status)
        expected = process.reclaimed or self._stopping_at is not None
        if code == WorkerExit.STOPPED:
            self._stop()
        elif code not in (WorkerExit.DONE, WorkerExit.RECLAIMED) and not expected:
            self.died += 1
            self._start_at = time.monotonic() + BROKEN_PAUSE
        for chunk in process.leased:
            if expected:
                self._deliveries[chunk] -= 1
            if self._deliveries[chunk] >= DELIVERIES:
                self._open.discard(chunk)
            else:
                self._waiting.appendleft(chunk)
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


def _work(run: Run, name: str, keeper: socket.socket) -> int:
    """A worker of a local run; see `WorkerExit` for what it returns."""
    stop = Stop()
    signal.signal(signal.SIGTERM, lambda *_: stop(Why.SIGNAL))
    adopt_orphans()
    with (Path(run.logs) / f"{name}.jsonl").open("ab") as log:
        write_to(log)
        os.dup2(log.fileno(), 2)
        try:
            os.chdir(run.folder)
            store = Store.open(run.store)
            scratch = Scratch(Path(run.scratch), name)
            staging = Staging(Stores(store), scratch, stop)
            try:
                runners = Runners(staging, scratch, stop, run.python or PYTHON)
                base_env = child_environment(os.environ)
                worker = Worker(
                    store, LocalLeases(keeper), runners, scratch=scratch, stop=stop, base_env=base_env, slots=1
                )
                return worker.run()
            finally:
                staging.close()
                scratch.close()
        except CallerError as error:
            say(str(error), "error")
            return WorkerExit.STOPPED
        except (StoreError, OSError) as error:
            say(str(error), "error")
            return WorkerExit.STORE_UNAVAILABLE


def _end(find: Any) -> None:
    """End processes until there are none: what is killed leaves children of its own to us."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while (left := find()) and time.monotonic() < deadline:
        for pid in left:
            _kill(pid)
        time.sleep(0.005)


def _kill(pid: int) -> None:
    """End a process that was left to us, and its group when it leads one."""
    with contextlib.suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)


def open_chunks(rounds: Iterable[tuple[int, Iterable[int], set[int]]]) -> list[tuple[int, int]]:
    """Chunks that are left to run, each in the newest round that enqueued it.

    Args:
        rounds: Oldest first: number, chunks enqueued, chunks done.
    """
    newest: dict[int, tuple[int, bool]] = {}
    for number, chunks, done in rounds:
        newest.update({chunk: (number, chunk in done) for chunk in chunks})
    return [(number, chunk) for chunk, (number, is_done) in sorted(newest.items()) if not is_done]


def forgive(ledger: Ledger, chunks: Iterable[tuple[int, int]]) -> None:
    """Say of attempts that a killed run left that no item was to blame.

    Within a run, whose keeper lives on, a worker that dies without a word counts against the items it was running. When
    everything was killed it says nothing of them: three kills by hand must not make an item poison.
    """
    wanted = set(chunks)
    for number in {number for number, _ in wanted}:
        for name in ledger.store.list(names.of_round(ledger.job, number, "attempts")):
            if (number, int(name.split("/")[-2])) in wanted:
                marker = json.loads(ledger.store.get(name))
                if marker["ended"] is None:
                    ledger.store.put(name, json.dumps(marker | {"ended": "killed"}).encode())
