"""A machine's service manager: starts units in order, and restarts, stops and ends them as their files say."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from localcloud.gcp.clock import Clock
from localcloud.gcp.compute.unit_files import Command, UnitError, UnitFile, read
from localcloud.processes import descendants

THERE = {"docker.service", "docker.socket", "containerd.service"}
"""Units that run on every machine; all targets run as well."""
Process = subprocess.Popen[bytes]


class Guest(Protocol):
    """The machine that runs the units."""

    def run(self, argv: list[str], environment: Mapping[str, str]) -> Process:
        """Start a program on the machine; its output goes to the journal."""
        ...

    def note(self, text: str) -> None:
        """Write a line to the journal."""

    def power_off(self) -> None:
        """Begin to shut the machine down."""


class Unit:
    """A started unit.

    Attributes:
        up: Set when later units may start: it runs or, if oneshot, has ended; `failed` says how.
        ended: Set when it is inactive again.
    """

    def __init__(self, file: UnitFile) -> None:
        self.file = file
        self.up, self.ended, self.stopping = threading.Event(), threading.Event(), threading.Event()
        self.failed = self.overdue = False
        self.main: Process | None = None


class Units:
    """All units of one machine.

    Args:
        guest: The machine.
        folder: Its /etc/systemd/system.
        clock: RestartSec uses this clock; the time allowed for a stop uses the wall clock.
    """

    def __init__(self, guest: Guest, folder: Path, clock: Clock) -> None:
        self._guest, self.folder, self._clock = guest, folder, clock
        self._units: dict[str, Unit] = {}
        self._lock = threading.RLock()

    def systemctl(self, words: list[str]) -> tuple[int, str]:
        """Run a `systemctl` command. Returns exit code and message."""
        options, (verb, *names) = [w for w in words if w.startswith("-")], [w for w in words if w[0] != "-"] or [""]
        try:
            if set(options) - {"--no-block", "--now", "--quiet", "--no-reload"}:
                raise UnitError(f"localcloud's systemctl does not know {' '.join(options)}")
            if verb in ("daemon-reload", "reset-failed") or (verb == "enable" and "--now" not in options):
                return 0, ""
            if verb in ("poweroff", "halt"):
                self._guest.power_off()
                return 0, ""
            if verb not in ("start", "restart", "stop", "enable", "is-active"):
                raise UnitError(f"localcloud's systemctl does not know {verb!r}")
            return max((self._verb(verb, name, "--no-block" in options) for name in names), default=0), ""
        except UnitError as error:
            return 1, str(error)

    def _verb(self, verb: str, name: str, at_once: bool) -> int:
        name = name if "." in name else f"{name}.service"
        unit = self._units.get(name)
        if verb == "is-active":
            return 0 if name in THERE or (unit and unit.up.is_set() and not unit.ended.is_set()) else 3
        if verb in ("stop", "restart") and unit:
            self._stop(unit)
        if verb == "stop":
            return 0
        unit = self.start(name)
        if unit and not at_once:
            unit.up.wait()
            return int(unit.failed)
        return 0

    def start(self, name: str) -> Unit | None:
        """Start a unit and its requirements, or find it started; None for one that every machine has.

        Raises:
            UnitError: Its file is missing or cannot be run here.
        """
        if name in THERE or name.endswith(".target"):
            return None
        with self._lock:
            unit = self._units.get(name)
            if unit and not unit.ended.is_set():
                return unit
            unit = self._units[name] = Unit(read(self.folder, name))
        for required in unit.file.words("Requires"):
            self.start(required)
        for wanted in unit.file.words("Wants"):
            with contextlib.suppress(UnitError):
                self.start(wanted)
        threading.Thread(target=self._live, args=(unit,), name=name, daemon=True).start()
        return unit

    def stop_all(self, seconds: float) -> None:
        """Stop all units at once and wait at most this long for them to end."""
        end = time.monotonic() + seconds
        with self._lock:
            running = [unit for unit in self._units.values() if not unit.ended.is_set()]
        for unit in running:
            threading.Thread(target=self._stop, args=(unit,), daemon=True).start()
        for unit in running:
            unit.ended.wait(max(end - time.monotonic(), 0))

    # The life of one unit, in a thread of its own

    def _live(self, unit: Unit) -> None:
        result = "exit-code"
        try:
            self._wait_for_others(unit)
            result = self._lives(unit)
        except UnitError as error:
            self._guest.note(str(error))
        except Exception as error:
            self._guest.note(f"{unit.file.name}: {error!r}")
        unit.failed = result != "success"
        self._guest.note(f"{unit.file.name}: {'Deactivated successfully.' if result == 'success' else result}")
        unit.up.set()
        stays = result == "success" and unit.file.flag("RemainAfterExit") and not unit.stopping.is_set()
        if not stays:
            unit.ended.set()
        action = unit.file.one("FailureAction" if unit.failed else "SuccessAction", "none")
        if action != "none" and not stays:
            self._guest.power_off()

    def _wait_for_others(self, unit: Unit) -> None:
        required = unit.file.words("Requires")
        with self._lock:
            first = [other for name in unit.file.words("After") if (other := self._units.get(name))]
            first += [other for other in self._units.values() if unit.file.name in other.file.words("Before")]
        for other in first:
            other.up.wait()
            if other.failed and other.file.name in required:
                raise UnitError(f"Dependency failed for {unit.file.name}: {other.file.name}")

    def _lives(self, unit: Unit) -> str:
        """Run the unit repeatedly, as Restart says. Returns how it ended."""
        file, starts = unit.file, deque[float]()
        condition = file.one("ConditionPathExists")
        if condition and (self.folder.parents[2] / condition.lstrip("/!")).exists() == condition.startswith("!"):
            return "success"
        interval, burst = file.seconds("StartLimitIntervalSec", 10), int(file.one("StartLimitBurst", "5"))
        while True:
            now = self._clock.now()
            starts.append(now)
            while starts[0] < now - interval:
                starts.popleft()
            if interval and len(starts) > burst:
                return "start-limit-hit"
            result, code = self._once(unit)
            if unit.stopping.is_set():
                return "success"
            kinds = {"always": True, "on-failure": result != "success", "on-success": result == "success"}
            if not kinds.get(file.one("Restart", "no")) or str(code) in file.words("RestartPreventExitStatus"):
                return result
            self._clock.wait(unit.stopping, file.seconds("RestartSec", 0.1))
            if unit.stopping.is_set():
                return "success"

    def _once(self, unit: Unit) -> tuple[str, int]:
        """One activation: its result and the main process's exit code."""
        file, environment = unit.file, unit.file.environment
        code = self._all(unit, "ExecStartPre", environment)
        if code == 0:
            oneshot = file.one("Type", "simple") == "oneshot"
            for command in file.commands("ExecStart", environment):
                code = self._main(unit, command, environment, oneshot)
                if code:
                    break
        fine = code == 0 or str(code) in file.words("SuccessExitStatus") or unit.stopping.is_set()
        result = "timeout" if unit.overdue else "success" if fine else "exit-code" if code <= 128 else "signal"
        after = {"SERVICE_RESULT": result, "EXIT_CODE": "exited" if code <= 128 else "killed", "EXIT_STATUS": str(code)}
        self._all(unit, "ExecStopPost", environment | after)
        return result, code

    def _main(self, unit: Unit, command: Command, environment: dict[str, str], oneshot: bool) -> int:
        with self._lock:
            if unit.stopping.is_set():
                return 0
            main = unit.main = self._guest.run(command.argv, environment)
        over = threading.Event()
        if not oneshot:
            unit.up.set()
            if unit.file.one("RuntimeMaxSec"):
                threading.Thread(target=self._limit, args=(unit, main, over), daemon=True).start()
        code = main.wait()
        over.set()
        unit.main = None
        return 0 if command.tolerant else code

    def _limit(self, unit: Unit, main: Process, over: threading.Event) -> None:
        """End an activation that lasts longer than RuntimeMaxSec; this counts as a failure."""
        if not self._clock.wait(over, unit.file.seconds("RuntimeMaxSec", 0)) and not unit.stopping.is_set():
            unit.overdue = True
            self._end(unit, main)

    def _end(self, unit: Unit, main: Process) -> None:
        with contextlib.suppress(UnitError):
            self._all(unit, "ExecStop", unit.file.environment | {"MAINPID": str(main.pid)})
        self._terminate(unit, main)

    def _all(self, unit: Unit, key: str, environment: dict[str, str]) -> int:
        """Run the lines of a key in order, up to the first failure. Returns its exit code."""
        for command in unit.file.commands(key, environment):
            code = self._guest.run(command.argv, environment).wait()
            if code and not command.tolerant:
                return code
        return 0

    def _stop(self, unit: Unit) -> None:
        with self._lock:
            first = not unit.stopping.is_set()
            unit.stopping.set()
            main = unit.main
        if main and first:
            self._end(unit, main)
        elif main is None and unit.up.is_set():
            unit.ended.set()  # a oneshot that has finished
        unit.ended.wait()

    def _terminate(self, unit: Unit, main: Process) -> None:
        """Send SIGTERM to the main process, or to all of the unit's; after TimeoutStopSec, SIGKILL to the rest."""
        whole = unit.file.one("KillMode", "control-group") == "control-group"
        # The first two are the program that creates the namespaces and its child; they pass the signal on.
        for pid in [main.pid, *(descendants(main.pid)[1:] if whole else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            main.wait(unit.file.seconds("TimeoutStopSec", 90))
        except subprocess.TimeoutExpired:
            main.kill()
