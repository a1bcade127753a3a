"""Workers of a local run, and the keeper that stands behind them.

`tidemill run` is three kinds of processes. The *client* writes the job and shows how it goes. The *keeper*, its child,
forks the workers, hands chunks out, replaces workers that die, and is the reaper of everything that they leave behind:
when the client dies, however it dies, the keeper ends it all. A *worker* is the same loop as in a container.

The keeper is forked before anything has opened a store (a store brings threads, which do not survive a fork). It
imports what workers run while the client writes the job, and its workers share that memory. `kill -9` of everything
leaves no lock and no state; a program that even survived that is ended by the next worker, which finds it by the
scratch folder of its dead worker.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import socket
from collections.abc import Collection, Iterable
from dataclasses import asdict

from tidemill import layout
from tidemill.errors import decoding
from tidemill.ledger import Ledger
from tidemill.services.local.lease import Run
from tidemill.worker.machine.usage import adopt_orphans, end_children, forked


class KeeperHandle:
    """The client's handle on the keeper. Make it before any store is opened.

    Args:
        parent: The client's own parent, where the run ends with it; else None.
    """

    def __init__(self, parent: int | None = None) -> None:
        self.parent = parent
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # Looking for garbage among what is already here would copy the pages that all processes share.
        gc.freeze()
        self.pid = os.fork()
        if self.pid == 0:
            self._socket.close()
            forked(lambda: _keep(theirs))
        theirs.close()
        # If only the keeper is killed, we inherit what it kept.
        adopt_orphans()
        self._heard = b""
        self.ended = False
        self.reclaimed = 0
        self.died = 0
        self.error = ""
        """Why the workers could not go on, when the keeper gave the run up."""
        self.notes: list[str] = []
        """Its messages so far; the reader removes those that it shows."""

    def start(self, run: Run, lock: int) -> None:
        """Begin a run. The keeper and its workers hold the descriptor of the job's lock."""
        data = json.dumps(asdict(run)).encode() + b"\n"
        # One that was killed is found by `wait`.
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [data[:1]], [lock])
            self._socket.sendall(data[1:])

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the run; says whether it came."""
        if not self.ended and select.select([self._socket], [], [], seconds)[0]:
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError:
                # It was killed before it had read everything.
                data = b""
            *lines, self._heard = (self._heard + data).split(b"\n")
            for message in map(json.loads, lines):
                if "note" in message:
                    self.notes.append(message["note"])
                else:
                    self.reclaimed, self.died, self.error = message["reclaimed"], message["died"], message["error"]
                    self.ended = True
            if not data and not self.ended:
                self.ended, self.error = True, "the process that starts them has ended"
        return self.ended

    @property
    def alone(self) -> bool:
        """True if the process with which the run ends is gone."""
        return self.parent not in (None, os.getppid())

    def drain(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(b"drain\n")

    def close(self) -> None:
        """End the keeper and what it keeps; nothing of the run is alive afterwards."""
        if self._socket.fileno() < 0:
            return
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        gc.unfreeze()
        end_children()


def _keep(client: socket.socket) -> int:
    # A terminal's Ctrl-C goes to the client, which tells us what to do.
    os.setsid()
    adopt_orphans()
    from tidemill.worker.local.keeper import keeper_main

    gc.freeze()
    return keeper_main(client)


def open_chunks(rounds: Iterable[tuple[int, Iterable[int], set[int]]]) -> list[tuple[int, int]]:
    """Chunks that are left to run, each in the newest of the rounds (number, chunks, done) that enqueued it."""
    newest: dict[int, tuple[int, bool]] = {}
    for number, chunks, done in rounds:
        newest.update({chunk: (number, chunk in done) for chunk in chunks})
    return [(number, chunk) for chunk, (number, is_done) in sorted(newest.items()) if not is_done]


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
