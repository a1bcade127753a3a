"""One stack's preview by the real engine, on localcloud or on the caller's login."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from components.config.load import read_file
from localcloud.cloud import CLOUDS, Cloud, CloudError, GcpCloud
from localcloud.engine import EngineError
from ops import base_stack
from ops.engine_messages import events, policies, summary, without_noise
from ops.processes import output, run
from ops.project import (
    ROOT,
    AnyConfig,
    copy_project,
    engine_name,
    environment_of,
    policy_options,
    program,
    settings_file,
    stack_file,
)  # fmt: skip
from ops.review.diffs import at, parts
from ops.review.document import VERSION, Base
from tidemill.folders import while_needed

_TIMEOUT_SECONDS = 600
_ANSWER_SECONDS = 120
# `--event-log` requires it.
_DEBUGGING = {"PULUMI_DEBUG_COMMANDS": "true"}
Overrides = Mapping[str, Mapping[str, Any]]
"""Properties by the name of a resource, or by its type and name: `LaunchTemplate/x-machines`."""
# Source positions on the machine that previewed: irrelevant to a reviewer, and half of the file.
_TRACES = ("stackTrace", "sourcePosition")


@contextmanager
def mistakes_told() -> Iterator[None]:
    """Report why the engine cannot run as one line for the caller."""
    try:
        yield
    except FileNotFoundError as error:
        raise click.UsageError(f"{error.filename} is not on PATH: https://www.pulumi.com/docs/install") from None
    except subprocess.TimeoutExpired as error:
        raise click.ClickException(f"not finished after {error.timeout:.0f} s; stopped") from None
    except (CloudError, EngineError) as error:
        raise click.ClickException(str(error)) from None


def answered(*words: str, folder: Path = ROOT) -> Any:
    """The engine's answer to a command as JSON, on the caller's login.

    Args:
        folder: Of the project.

    Raises:
        click.ClickException: It refuses, or does not answer in time.
    """
    with mistakes_told():
        return json.loads(_said(["pulumi", *words, "--non-interactive"], folder, os.environ, _ANSWER_SECONDS))


class PreviewRun:
    """A preview of one stack."""

    def __init__(self, stack: str, config: AnyConfig, where: str, base: Base | None = None) -> None:
        """
        Args:
            where: `login`, or `localcloud` for a cloud on this machine.
            base: On localcloud, the commit whose stack is brought up first; without one the cloud is empty.
        """
        self._stack = stack
        self._config = config
        self._where = where
        self._base = base
        self._was_up = False
        self._before: dict[str, Any] = {}
        self._stood_in = ""
        self._protected: frozenset[str] = frozenset()

    def show(self) -> int:
        """Print the engine's diff and then a summary of what matters; return its exit code."""
        with self._project() as (folder, env):
            command = _command(self._stack, self._config, "--diff")
            return shown(command, program(self._stack, folder), env, _TIMEOUT_SECONDS)

    def document(self, *, refresh: bool = False) -> dict[str, Any]:
        """Run the preview and return the preview document, even if the preview fails."""
        with self._project() as (folder, env):
            preview = document(self._stack, self._config, folder, env, refresh=refresh, protected=self._protected)
        base = self._base and {**self._base.model_dump(), "has_stack": self._was_up, "config": self._before}
        left = not_judged(preview) if self._where == "localcloud" else {}
        return {**self._in_its_project(preview), "base": base, "not_judged": left}

    def _in_its_project(self, preview: dict[str, Any]) -> dict[str, Any]:
        """The document with the stack's own GCP project where localcloud's only one stands."""
        own = read_file(stack_file(self._stack))["config"].get("gcp:project")
        return json.loads(json.dumps(preview).replace(self._stood_in, own)) if self._stood_in and own else preview

    @contextmanager
    def _project(self) -> Iterator[tuple[Path, Mapping[str, str]]]:
        """The folder to run the engine in, and its environment."""
        if self._where == "login":
            yield ROOT, os.environ
            return
        with while_needed("preview") as scratch:
            project, before = scratch / "project", scratch / "base"
            project.mkdir()
            copy_project(project, self._stack)
            self._was_up = self._base is not None and base_stack.lay_out(self._base, self._stack, before)
            with CLOUDS[self._config.cloud](scratch / "state") as cloud:
                _prepare(self._stack, cloud, project)
                self._stood_in = cloud.project if isinstance(cloud, GcpCloud) else ""
                if self._base and self._was_up:
                    self._before = base_stack.config(self._stack, before)
                    cloud.left_out = overridden(self._before.get("tidemill:overrides") or {})
                    self._protected = base_stack.bring_up(self._base, self._stack, before, project, cloud)
                cloud.left_out = overridden(getattr(self._config, "overrides", {}))
                yield project, cloud.env


def overridden(overrides: Overrides) -> dict[str, list[str]]:
    """The paths that overrides set, by the resource's name."""
    found: dict[str, list[str]] = {}
    for key, properties in overrides.items():
        found.setdefault(_resource(key), []).extend(_set_paths(properties))
    return found


def not_judged(preview: Mapping[str, Any]) -> dict[str, list[str]]:
    """The paths that a preview document's overrides set and its resources lack, by the override's key."""
    steps = (preview["preview"] or {}).get("steps", ())
    found: dict[str, list[str]] = {}
    for key, properties in preview["overrides"].items():
        kind = key.rpartition("/")[0]
        for step in steps:
            *_, types, name = step["urn"].split("::", 3)
            if name == _resource(key) and types.endswith(f":{kind}" if kind else "") and step.get("newState"):
                inputs = step["newState"].get("inputs") or {}
                if left := [path for path in _set_paths(properties) if at(inputs, parts(path)) is None]:
                    found[key] = left
    return found


def _resource(key: str) -> str:
    return key.rpartition("/")[2]


def _set_paths(value: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Paths of values that are not mappings; null removes a property, so it sets none."""
    for key, inner in value.items():
        path = f"{above}.{key}" if above else str(key)
        if isinstance(inner, Mapping) and inner:
            yield from _set_paths(inner, path)
        elif inner is not None:
            yield path


def shown(
    command: list[str], folder: Path, env: Mapping[str, str], timeout: float, *, grace: float | None = None
) -> int:
    """Run the engine on this terminal, then repeat violations and protection; return its exit code.

    Args:
        grace: See `ops.processes.run`.
    """
    with while_needed("engine") as scratch:
        log, err = scratch / "events", scratch / "err"
        colors = ["--color", "always"] if sys.stdout.isatty() else []
        with err.open("wb") as stderr, _terminal() as stdout:
            logged = [*command, *colors, "--event-log", str(log)]
            debugging = {**env, **_DEBUGGING}
            code = run(logged, cwd=folder, env=debugging, timeout=timeout, stdout=stdout, stderr=stderr, grace=grace)
        click.echo(without_noise(err.read_text(encoding="utf-8", errors="replace")), nl=False, err=True)
        for line in summary(events(log)):
            click.echo(line)
    return code


@contextmanager
def _terminal() -> Iterator[IO[bytes]]:
    """A pipe whose lines appear on this terminal at once, without noise."""
    read, write = os.pipe()
    with open(read, encoding="utf-8", errors="replace") as lines, ThreadPoolExecutor(1) as copying:
        with open(write, "wb") as stdout:
            copied = copying.submit(lambda: [click.echo(without_noise(line), nl=False) for line in lines])
            yield stdout
        copied.result()


def document(
    stack: str,
    config: AnyConfig,
    folder: Path,
    env: Mapping[str, str],
    *,
    refresh: bool = False,
    protected: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Preview a stack of a project and return the preview document (docs/review.md), even if the preview fails.

    Args:
        refresh: Ask the cloud what there is before comparing, in place of trusting the state.
        protected: URNs of resources whose protection was lifted for the preview.
    """
    with while_needed("preview") as scratch:
        out, err, log = (scratch / name for name in ("out", "err", "events"))
        # Without --show-sames the engine's JSON has only changes. It never has policy results; the event log, a
        # debugging option of the CLI, has them.
        options = ["--json", "--show-sames", "--event-log", str(log), *(["--refresh"] if refresh else [])]
        command = _command(stack, config, *options)
        debugging = {**env, **_DEBUGGING}
        with out.open("wb") as stdout, err.open("wb") as stderr:
            cwd = program(stack, folder)
            code = run(command, cwd=cwd, env=debugging, timeout=_TIMEOUT_SECONDS, stdout=stdout, stderr=stderr)
        preview, told = _json(out), without_noise(err.read_text(encoding="utf-8", errors="replace")).strip()
        results = policies(events(log))
    return {
        "version": VERSION,
        "stack": stack,
        "cloud": config.cloud,
        "region": _region(settings_file(stack, folder), config.cloud),
        "environment": environment_of(stack, config),
        "config": config.model_dump(mode="json", exclude_unset=True),
        "preview": preview and _lean(_protected_again(preview, protected)),
        "policies": results,
        "waivers": [waiver.model_dump(mode="json") for waiver in getattr(config, "waivers", [])],
        "overrides": getattr(config, "overrides", {}),
        "errors": [] if preview or not code else [told or f"pulumi ended with {code} and said nothing"],
        "exit_code": code,
    }


def _command(stack: str, config: AnyConfig, *options: str) -> list[str]:
    policies = policy_options(environment_of(stack, config))
    return ["pulumi", "preview", "--stack", engine_name(stack), *options, "--non-interactive", *policies]


def _prepare(stack: str, cloud: Cloud | GcpCloud, project: Path) -> None:
    commands = [["pulumi", "stack", "init", engine_name(stack), "--non-interactive"]]
    if isinstance(cloud, GcpCloud):
        # It has one project; the copied stack file names the team's.
        commands.append(["pulumi", "config", "set", "gcp:project", cloud.project, "--stack", engine_name(stack)])
    for command in commands:
        _said(command, program(stack, project), cloud.env, 60)


def _said(command: list[str], folder: Path, env: Mapping[str, str], timeout: float) -> str:
    code, text = output(command, cwd=folder, env=env, timeout=timeout)
    if code:
        raise click.ClickException(f"{' '.join(command)}: {base_stack.reason(text)}")
    return text


def region_of(stack: str, cloud: str) -> str | None:
    """The region in the file of a stack of stacks/; None if it comes from the environment."""
    return _region(stack_file(stack), cloud)


def _region(path: Path, cloud: str) -> str | None:
    return read_file(path)["config"].get(f"{cloud}:region")


def _json(path: Path) -> dict[str, Any] | None:
    """The engine's preview; None if the engine ended before it wrote one."""
    try:
        return json.loads(path.read_bytes())
    except json.JSONDecodeError:
        return None


def _protected_again(preview: dict[str, Any], protected: frozenset[str]) -> dict[str, Any]:
    """The preview with the stack's own protection in place of the lifted one."""
    for step in preview.get("steps", ()):
        if step["urn"] in protected and step.get("oldState"):
            step["oldState"]["protect"] = True
    return preview


def _lean(preview: dict[str, Any]) -> dict[str, Any]:
    """The engine's preview without machine paths; what is the same before and after appears once."""
    lean = _without_traces(preview)
    for step in lean.get("steps", ()):
        old, new = step.get("oldState") or {}, step.get("newState") or {}
        if step["op"] == "same" and all(old.get(key) == new.get(key) for key in ("inputs", "protect")):
            step.pop("oldState", None)
    return lean


def _without_traces(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_traces(each) for key, each in value.items() if key not in _TRACES}
    return [_without_traces(each) for each in value] if isinstance(value, list) else value
