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
import traceback
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from tidemill import layout
from tidemill.descriptor import WorkerExit
from tidemill.errors import CallerError, StoreError, decoding
from tidemill.ledger import Ledger
from tidemill.store import Store, Stores
from tidemill.worker.items import ERROR_CHARACTERS
from tidemill.worker.leases.local import LocalLeases, receive, send
from tidemill.worker.loop import Worker
from tidemill.worker.output import also_to, log, write_to
from tidemill.worker.programs import GRACE_SECONDS
from tidemill.worker.runners import PYTHON, Runners
from tidemill.worker.scratch import Scratch
from tidemill.worker.settings import child_environment
from tidemill.worker.staging import Staging
from tidemill.worker.stop import Stop, StopReason
from tidemill.worker.usage import adopt_orphans, die_with_parent, own_children

DELIVERIES = 10
"""Of a chunk in a row without an outcome of it, as on AWS Batch; reclaims that were asked for are not counted."""
BROKEN_PAUSE = 1.0
"""Before a worker that died is replaced; twice as long each time that workers cannot even start, or lose the store."""
FAILURES = 5
"""So many times in a row, and the run ends: what is wrong is the store, the scratch folder or this machine."""
SILENT_SECONDS = 60.0
"""A worker that holds a chunk and says nothing for so long is frozen (stopped by a signal, a store that hangs)."""
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
        self._heard = b""
        self.ended = False
        self.reclaimed = 0
        self.died = 0
        self.error = ""
        """Why the workers could not go on, when the keeper gave the run up."""
        self.notes: list[str] = []
        """What it has to say meanwhile; whoever shows it takes it out."""

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
            data = self._socket.recv(65536)
            *lines, self._heard = (self._heard + data).split(b"\n")
            for said in map(json.loads, lines):
                if "note" in said:
                    self.notes.append(said["note"])
                else:
                    self.reclaimed, self.died, self.error = said["reclaimed"], said["died"], said["error"]
                    self.ended = True
            self.ended = self.ended or not data
        return self.ended

    def drain(self) -> None:
        """Let the workers finish writing what is done, and end."""
        with contextlib.suppress(OSError):
            self._socket.sendall(b"drain\n")

    def close(self) -> None:
        """End the keeper and what it keeps; nothing of the run is alive afterwards."""
        if self._socket.fileno() < 0:
            return
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
    seen: float
    """When it last said something, or was given something."""
    waits: bool = False
    served: bool = False
    """Whether it was ever given a chunk."""
    reclaimed: bool = False
    error: str = ""
    """The last error that it told of."""


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
        keeping.tell({"reclaimed": keeping.reclaimed, "died": keeping.died, "error": keeping.error})
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
        self._failures = 0
        self.reclaimed = self.died = 0
        self.error = ""

    def tell(self, said: dict[str, Any]) -> None:
        """Say something to the client, if it is still there."""
        with contextlib.suppress(OSError):
            self._client.sendall(json.dumps(said).encode() + b"\n")

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
            self._end_silent()
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
        self._processes[pid] = _Process(number, pid, ours, [], time.monotonic())

    def _serve(self, process: _Process) -> None:
        message = receive(process.socket)
        if message is None:
            # A worker closes its socket by ending.
            self._ended(process, os.waitpid(process.pid, 0)[1])
        elif message["say"] == "lease":
            process.waits = True
            self._give(process)
        else:
            self._hear(process, message)
            self._give_all()

    def _hear(self, process: _Process, message: dict[str, Any]) -> None:
        """Anything but a wish for a chunk."""
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
        """A chunk comes back from a worker; somebody else has it next, unless it was in vain too often."""
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

    def _give(self, process: _Process) -> None:
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
            _kill(pid)

    def _ended(self, process: _Process, status: int) -> None:
        del self._processes[process.pid]
        process.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            # Its last words.
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

    def _died(self, process: _Process, code: int) -> None:
        """A worker died. With a chunk in its hands and by a signal, an item may have done that: the ledger counts it.
        Otherwise the next worker is likely to fare no better."""
        self.died += 1
        with contextlib.suppress(OSError), deaths_of(self._run.logs).open("a") as file:
            file.write(f"{self._id}-{process.number}\n")
        now = time.monotonic()
        if now < self._start_at:
            # What fails workers fails all of them at once.
            return
        pause = BROKEN_PAUSE
        if code > 0 or not process.served:
            pause *= 2**self._failures
            self._failures += 1
            at_work = any(other.leased for other in self._processes.values())
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
                self.tell({"note": f"{what}: it is ended, and another goes on with what it had"})
                del self._processes[process.pid]
                process.socket.close()
                _kill(process.pid)
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


def _work(run: Run, name: str, keeper: socket.socket) -> int:
    """A worker of a local run; see `WorkerExit` for what it returns. Its last error is told to the keeper."""
    stop, said = Stop(), [""]
    signal.signal(signal.SIGTERM, lambda *_: stop.set(StopReason.SIGNAL))
    adopt_orphans()

    def note(lines: list[tuple[dict[str, Any], int]]) -> None:
        said[-1:] = [line["message"] for line, _ in lines if line.get("level") == "error"][-1:] or said[-1:]

    also_to(note)
    try:
        with (Path(run.logs) / f"{name}.jsonl").open("ab") as log:
            forgiving: Any = _Log(log)
            write_to(forgiving)
            os.dup2(log.fileno(), 2)
            code = _serve(run, name, keeper, stop)
    except OSError as error:
        code, said[-1] = WorkerExit.STORE_UNAVAILABLE, f"{run.logs}: {error}"
    if code not in (WorkerExit.DONE, WorkerExit.RECLAIMED):
        send(keeper, {"say": "error", "text": said[-1][:ERROR_CHARACTERS]})
    return code


def _serve(run: Run, name: str, keeper: socket.socket, stop: Stop) -> int:
    try:
        os.chdir(run.folder)
        store = Store.open(run.store)
        scratch = Scratch(Path(run.scratch), name)
        staging = Staging(Stores(store), scratch, stop)
        try:
            runners = Runners(staging, scratch, stop, run.python or PYTHON)
            base_env, leases = child_environment(os.environ), LocalLeases(keeper)
            return Worker(store, leases, runners, scratch=scratch, stop=stop, base_env=base_env, slots=1).run()
        finally:
            staging.close()
            scratch.close()
    except CallerError as error:
        log(str(error), "error")
        return WorkerExit.STOPPED
    except (StoreError, OSError) as error:
        log(str(error), "error")
        return WorkerExit.STORE_UNAVAILABLE
    except Exception as error:
        log(f"{type(error).__name__}: {error}", "error", traceback=traceback.format_exc())
        return 1


class _Log:
    """A worker's log. Where the disk is full a line is lost, not the worker that has it to say."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._file.write(data)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


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


def deaths_of(logs: str | Path) -> Path:
    """Where the keepers of a job note their workers that died: a line each, ``<run>-<worker>``."""
    return Path(logs).parent / "deaths"


def forgive(ledger: Ledger, chunks: Iterable[tuple[int, int]], died: Collection[str] = ()) -> None:
    """Say of attempts that a killed run left that no item was to blame.

    Within a run, whose keeper lives on, a worker that dies without a word counts against the items it was running. When
    everything was killed it says nothing of them: three kills by hand must not make an item poison.

    Args:
        ledger: Of the job.
        chunks: (round, chunk) that are left to run.
        died: Workers that died while their keeper lived, ``<run>-<worker>``: their attempts still count.
    """
    wanted = set(chunks)
    for number in {number for number, _ in wanted}:
        for name in ledger.store.list(layout.of_round(ledger.job, number, "attempts")):
            if (number, int(name.split("/")[-2])) not in wanted:
                continue
            with decoding(ledger.store.uri_of(name)):
                marker = json.loads(ledger.store.get(name))
                backend = marker.get("backend") or {}
                killed = marker["ended"] is None and f"{backend.get('run')}-{backend.get('worker')}" not in died
            if killed:
                ledger.store.put(name, json.dumps(marker | {"ended": "killed"}).encode())
