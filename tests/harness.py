"""Drives the real Pulumi engine in a copy of the project, against one localcloud.

Every run has a time limit and is ended together with the plugins that it started.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ops.processes import end_session
from ops.project import ROOT, copy_project, policy_options
from tests.warm import python, warmed

TIMEOUT_SECONDS = 600
CLOUDS = ("aws:", "gcp:")
_CIPHERTEXT = "4dabf18193072939515e22adb298388d"
"""The engine's mark of a secret in a state."""
_OTHERS = {"bootstrap": "account", "shared": "shared"}
"""The policy pack config of projects that have no `tidemill:environment`."""

_initial: dict[str, str] = {}
"""What `pulumi stack init` wrote."""


@dataclass(frozen=True)
class Step:
    """One action of the engine, real or planned, on one resource."""

    op: str
    kind: str
    name: str
    replaces: tuple[str, ...] = field(default=(), compare=False)
    """The properties that force the replacement."""

    def __str__(self) -> str:
        return f"{self.op} {self.kind.rpartition(':')[2]} {self.name}"


@dataclass(frozen=True)
class Run:
    """A finished run of `pulumi`."""

    code: int
    out: str
    err: str
    events: list[dict[str, Any]]

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def steps(self) -> list[Step]:
        """Started steps, in order. Unchanged resources, components and the stack are left out."""
        return [step for event in self.events if (step := _step(event.get("resourcePreEvent")))]

    @property
    def plan(self) -> list[str]:
        """The steps as `op Type name`, for comparisons and failure messages."""
        return [str(step) for step in self.steps]

    @property
    def errors(self) -> list[str]:
        """Errors from the engine's diagnostics, without the closing "update failed" or "preview failed"."""
        ends = ("update failed", "preview failed")
        return [message for message in self._told("error") if not message.strip().endswith(ends)]

    @property
    def notes(self) -> list[str]:
        """The program's messages other than warnings and errors."""
        return self._told("info")

    def _told(self, severity: str) -> list[str]:
        told = [event["diagnosticEvent"] for event in self.events if "diagnosticEvent" in event]
        return [event["message"] for event in told if event["severity"] == severity]

    @property
    def violations(self) -> list[tuple[str, str]]:
        """(name of the rule, message) of everything that the policy pack reported."""
        found = [event["policyEvent"] for event in self.events if "policyEvent" in event]
        return [(event["policyName"], event["message"]) for event in found]

    def ok(self) -> Run:
        """Return itself.

        Raises:
            AssertionError: The run failed; the message holds its output.
        """
        assert self.code == 0, f"exit code {self.code}\n{self.text}"
        return self

    def refused(self) -> Run:
        """Return itself.

        Raises:
            AssertionError: The run succeeded although it should have been refused.
        """
        assert self.code != 0, f"it should have been refused\n{self.text}"
        return self


def _step(event: Mapping[str, Any] | None) -> Step | None:
    metadata = (event or {}).get("metadata")
    if not metadata or metadata["op"] in ("same", "read") or not metadata["type"].startswith(("aws:", "gcp:")):
        return None
    detailed = metadata.get("detailedDiff") or {}
    replaces = tuple(sorted(key for key, diff in detailed.items() if diff.get("diffKind", "").endswith("-replace")))
    return Step(metadata["op"], metadata["type"], metadata["urn"].rpartition("::")[2], replaces)


class Running:
    """A run of `pulumi` that may still be in progress."""

    def __init__(self, process: subprocess.Popen, base: Path) -> None:
        self.process = process
        self._base = base

    @property
    def events(self) -> list[dict[str, Any]]:
        """The engine's events so far."""
        log = self._base.with_suffix(".events")
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_until(self, condition: Callable[[list[dict[str, Any]]], bool], timeout: float = TIMEOUT_SECONDS) -> None:
        """Wait until the events so far fulfil a condition.

        Raises:
            AssertionError: The run ended or the time limit passed first.
        """
        deadline = time.monotonic() + timeout
        while not condition(self.events):
            assert self.process.poll() is None, f"the run ended first\n{self._ended().text}"
            assert time.monotonic() < deadline, f"not within {timeout} s\n{self._ended().text}"
            time.sleep(0.05)

    def wait(self, timeout: float) -> Run:
        """Wait for the end.

        Raises:
            AssertionError: It took longer than `timeout` seconds.
        """
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {timeout} s\n{self._ended().text}") from None
        return self._ended()

    def _ended(self) -> Run:
        out, err = (self._base.with_suffix(suffix).read_text(errors="replace") for suffix in (".out", ".err"))
        code = self.process.poll()
        return Run(-1 if code is None else code, out, err, self.events)


class Project:
    """A copy of the project with one stack, in a folder and a backend of its own."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        stack: str,
        source: Path | None = None,
        *,
        backend: str | None = None,
        secrets: str = "",
    ) -> None:
        """Lay out the copy and create the stack.

        Args:
            folder: An empty folder.
            env: Environment that localcloud gives to commands.
            stack: Name of a stack of stacks/, or of any stack when `source` is given.
            source: Another project of this repository instead of the main one, such as `bootstrap/`.
            backend: URL of a backend instead of a folder's.
            secrets: A provider of secrets instead of the passphrase in `env`.
        """
        self.folder = folder
        self.stack = stack
        self._backend = folder / "backend"
        self._backend.mkdir()
        # The event log is a debugging option of the CLI.
        self.env = {
            **warmed(env),
            "PULUMI_BACKEND_URL": backend or f"file://{self._backend}",
            "PULUMI_DEBUG_COMMANDS": "true",
        }
        self._runs = 0
        self._environment = _OTHERS.get(source.name if source else "", "default")
        if source is None:
            copy_project(folder, stack)
        else:
            for entry in source.iterdir():
                if not entry.name.startswith((f"Pulumi.{stack}", "__pycache__")):
                    (folder / entry.name).symlink_to(entry)
        if secrets or backend:
            self.run("stack", "init", *(["--secrets-provider", secrets] if secrets else [])).ok()
        else:
            self._init()

    def _init(self) -> None:
        """Create the stack with what `pulumi stack init` writes; it runs once per process."""
        name = yaml.safe_load((self.folder / "Pulumi.yaml").read_text())["name"]
        meta, state = (self._backend / ".pulumi" / each for each in ("meta.yaml", f"stacks/{name}/{self.stack}.json"))
        if not _initial:
            self.run("stack", "init").ok()
            _initial.update(meta=meta.read_text(), state=state.read_text(), salt=self._settings()["encryptionsalt"])
            return
        state.parent.mkdir(parents=True)
        meta.write_text(_initial["meta"])
        written = json.loads(_initial["state"])
        written["checkpoint"]["stack"] = f"organization/{name}/{self.stack}"
        state.write_text(json.dumps(written))
        with self._stack_file.open("a") as file:
            file.write(f"encryptionsalt: {_initial['salt']}\n")

    def wait_until_written(self, timeout: float = TIMEOUT_SECONDS) -> None:
        """Wait until the state on disk is complete and the engine has left it alone for half a second.

        The engine's file backend writes in place: a run that is killed while writing leaves half a state behind, which
        `pulumi cancel` cannot repair.

        Raises:
            AssertionError: The time limit passed first.
        """
        deadline, before, since = time.monotonic() + timeout, b"", time.monotonic()
        while time.monotonic() - since < 0.5:
            assert time.monotonic() < deadline, f"the state was still being written after {timeout} s"
            content = b"".join(path.read_bytes() for path in self._backend.rglob(f"stacks/**/{self.stack}.json"))
            if content != before or not content.rstrip().endswith(b"}"):
                before, since = content, time.monotonic()
            time.sleep(0.05)

    @contextlib.contextmanager
    def config(self) -> Iterator[dict[str, Any]]:
        """Edit the stack's config; it is written when the block ends."""
        settings = self._settings()
        yield settings.setdefault("config", {})
        self._stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))

    @property
    def _stack_file(self) -> Path:
        stacks = self.folder / "stacks"
        return (stacks if stacks.is_dir() else self.folder) / f"Pulumi.{self.stack}.yaml"

    def _settings(self) -> dict[str, Any]:
        path = self._stack_file
        return (yaml.safe_load(path.read_text()) if path.exists() else None) or {}

    @contextlib.contextmanager
    def program(self, text: str) -> Iterator[None]:
        """Replace the project's program. The new one can run the old one as `ordinary.py`, and can import mutants."""
        main, ordinary = self.folder / "__main__.py", self.folder / "ordinary.py"
        if not (self.folder / "tests").exists():
            (self.folder / "tests").symlink_to(ROOT / "tests")
        main.rename(ordinary)
        main.write_text(text)
        try:
            yield
        finally:
            ordinary.replace(main)

    def preview(self, *options: str) -> Run:
        """Preview with the policy pack, as strictly as the stack's environment requires."""
        return self.run("preview", *self.policies(), *options, events=True)

    def policies(self) -> list[str]:
        """Options for the policy pack, as strict as the stack's environment requires."""
        return policy_options((self._settings().get("config") or {}).get("tidemill:environment", self._environment))

    def up(self, *options: str) -> Run:
        return self.run("up", "--yes", "--skip-preview", *options, events=True)

    def refresh(self, *options: str) -> Run:
        return self.run("refresh", "--yes", "--skip-preview", *options, events=True)

    def destroy(self, *options: str) -> Run:
        return self.run("destroy", "--yes", "--skip-preview", *options, events=True)

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, from its state unless one is secret."""
        resources = self.export()["deployment"].get("resources") or []
        found = next((each.get("outputs") for each in resources if each["type"] == "pulumi:pulumi:Stack"), None) or {}
        if _CIPHERTEXT in json.dumps(found):
            return json.loads(self.run("stack", "output", "--json", "--show-secrets").ok().out)
        return found

    def descriptor(self) -> dict[str, Any]:
        """The content of `pipeline.json` in the store."""
        resources = self.export()["deployment"]["resources"]
        (pipeline,) = (each for each in resources if each["type"] == "tidemill:index:Pipeline")
        return pipeline["outputs"]["descriptor"]

    def export(self) -> dict[str, Any]:
        """The stack as exported from the backend. A folder's state is read from its file."""
        scheme, _, backend = self.env["PULUMI_BACKEND_URL"].partition("://")
        if scheme != "file":
            return json.loads(self.run("stack", "export").ok().out)
        project = yaml.safe_load((self.folder / "Pulumi.yaml").read_text())["name"]
        state = Path(backend, ".pulumi", "stacks", project, f"{self.stack}.json")
        return {"version": 3, "deployment": json.loads(state.read_text())["checkpoint"]["latest"] or {}}

    def resources(self, kind: str = "") -> list[dict[str, Any]]:
        """Cloud resources in the state, by the end of their type."""
        found = self.export()["deployment"].get("resources") or []
        return [r for r in found if r["type"].startswith(CLOUDS) and r["type"].endswith(kind)]

    def run(self, *arguments: str, events: bool = False, timeout: float = TIMEOUT_SECONDS) -> Run:
        """Run `pulumi` to its end and return the result, success or failure. A state in a folder is written at the end:
        to write it after each step, too, costs as much as all steps."""
        in_a_folder = self.env["PULUMI_BACKEND_URL"].startswith("file:")
        with self.start(*arguments, events=events, checkpoints=not in_a_folder) as running:
            return running.wait(timeout)

    @contextlib.contextmanager
    def start(self, *arguments: str, events: bool = True, checkpoints: bool = True) -> Iterator[Running]:
        """Start `pulumi`; it and its plugins are ended when the block ends. Only with checkpoints can it be killed."""
        self._runs += 1
        base = self.folder / f"run-{self._runs}"
        command = ["pulumi", *arguments, "--stack", self.stack, "--non-interactive"]
        if events:
            command += ["--event-log", str(base.with_suffix(".events"))]
        with base.with_suffix(".out").open("wb") as out, base.with_suffix(".err").open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.env | ({} if checkpoints else {"PULUMI_SKIP_CHECKPOINTS": "true"}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        try:
            yield Running(process, base)
        finally:
            end_session(process)


def typed(
    *command: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = TIMEOUT_SECONDS
) -> tuple[int, str]:
    """Run Python with arguments as typed in a shell; see `ended`."""
    return ended([python(), *command], cwd, env, timeout)


def ended(
    command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, timeout: float = TIMEOUT_SECONDS
) -> tuple[int, str]:
    """Run a command to its end. Returns the exit code and the output; no child outlives it."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    finally:
        end_session(process)
    return process.returncode, output
