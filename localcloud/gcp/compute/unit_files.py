"""Unit files of systemd, as far as a machine's template uses them; all other keys are errors."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

KNOWN = {
    "Unit": {"Description", "Documentation", "Requires", "Wants", "After", "Before", "SuccessAction", "FailureAction",
             "StartLimitIntervalSec", "StartLimitBurst", "ConditionPathExists"},
    "Service": {"Type", "RemainAfterExit", "Environment", "ExecStartPre", "ExecStart", "ExecStop", "ExecStopPost",
                "Restart", "RestartSec", "RestartPreventExitStatus", "SuccessExitStatus", "TimeoutStartSec",
                "TimeoutStopSec", "RuntimeMaxSec", "KillMode", "StandardOutput", "StandardError", "User"},
    "Install": {"WantedBy"},
}  # fmt: skip
VALUES = {
    "Type": {"simple", "exec", "oneshot"},
    "Restart": {"no", "always", "on-failure", "on-success"},
    "KillMode": {"control-group", "mixed"},
    "SuccessAction": {"none", "poweroff", "poweroff-force"},
    "FailureAction": {"none", "poweroff", "poweroff-force"},
    "StandardOutput": {"journal", "journal+console"},
    "StandardError": {"journal", "journal+console", "inherit"},
    "User": {"root"},
    "RemainAfterExit": {"yes", "no", "true", "false"},
}
SPAN = {"": 1.0, "ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class UnitError(Exception):
    """A unit file uses something unknown here, or does not exist."""


@dataclass(frozen=True)
class Command:
    """One Exec line; a `tolerant` one (prefix `-`) may fail."""

    argv: list[str]
    tolerant: bool


class UnitFile:
    """A parsed unit file.

    Raises:
        UnitError: The file uses something unknown here.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._values: dict[str, list[str]] = {}
        section = ""
        for line in re.sub(r"\\\n", " ", text).splitlines():
            line = line.strip()  # noqa: PLW2901
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif line and line[0] not in "#;":
                key, _, value = (part.strip() for part in line.partition("="))
                self._take(section, key, value)

    def _take(self, section: str, key: str, value: str) -> None:
        if key not in KNOWN.get(section, set()):
            raise UnitError(f"{self.name}: localcloud does not know {key} in [{section}]")
        if key in VALUES and value not in VALUES[key]:
            raise UnitError(f"{self.name}: {key} is one of {sorted(VALUES[key])} here, not {value!r}")
        if re.search(r"%[^%n]", value):
            raise UnitError(f"{self.name}: localcloud knows no specifier but %n: {key}={value}")
        value = value.replace("%n", self.name).replace("%%", "%")
        self._values[key] = [*self._values.get(key, []), value] if value else []

    def one(self, key: str, default: str = "") -> str:
        return (self._values.get(key) or [default])[-1]

    def words(self, key: str) -> list[str]:
        """All values of a key, split at blanks by systemd's quoting rules."""
        return [word for value in self._values.get(key, []) for word in shlex.split(value)]

    def seconds(self, key: str, default: float) -> float:
        """A time span in seconds; `infinity` is a very long one."""
        text = self.one(key, f"{default}s")
        if text == "infinity":
            return 1e9
        parts = re.findall(r"([\d.]+)\s*([a-z]*)", text)
        if not parts or any(unit not in SPAN for _, unit in parts):
            raise UnitError(f"{self.name}: {key}: not a time span: {text!r}")
        return sum(float(number) * SPAN[unit] for number, unit in parts)

    def flag(self, key: str) -> bool:
        return self.one(key) in ("yes", "true")

    @property
    def environment(self) -> dict[str, str]:
        pairs = (word.partition("=") for word in self.words("Environment"))
        return {name: value for name, _, value in pairs}

    def commands(self, key: str, environment: dict[str, str]) -> list[Command]:
        """The lines of an Exec key with `$NAME` (as words) and `${NAME}` (inside a word) expanded."""
        lines = []
        for value in self._values.get(key, []):
            prefix = re.match(r"[-@+!:]*", value)
            marks = prefix[0] if prefix else ""
            if set(marks) - {"-", "+", "!"}:
                raise UnitError(f"{self.name}: localcloud does not know the prefix {marks!r} of {key}")
            argv: list[str] = []
            for word in shlex.split(value[len(marks) :]):
                if found := re.fullmatch(r"\$([A-Za-z_]\w*)", word):
                    argv += environment.get(found[1], "").split()
                else:
                    put = re.sub(r"(?<!\$)\$\{(\w+)\}", lambda name: environment.get(name[1], ""), word)
                    argv.append(put.replace("$$", "$"))
            lines.append(Command(argv, "-" in marks))
        return lines


def read(folder: Path, name: str) -> UnitFile:
    """Read a unit of /etc/systemd/system.

    Raises:
        UnitError: The unit does not exist, or uses something unknown here.
    """
    file = folder / name
    if not file.is_file():
        raise UnitError(f"Failed to start {name}: Unit {name} not found.")
    return UnitFile(name, file.read_text())
