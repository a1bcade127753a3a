"""The base of a change on localcloud: a stack of a commit as it is once it is up, with its protection lifted."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from components.config.load import read_file
from components.rooms import DEFAULT
from localcloud.cloud import Cloud, GcpCloud
from ops import git, kept_bases, project
from ops.kept_bases import KeptBase
from ops.processes import output
from ops.review.document import Base

_UP_SECONDS = 600
_COMMAND_SECONDS = 60
_STATE = "state.json"
_ADDRESS = "localcloud.invalid"
"""Stands in a kept state for host and port of a localcloud, which every run chooses anew."""
_FOREIGN = (
    (re.compile(r"gs://([^/]+)"), r"storage/projects/_/buckets/\1"),
    (re.compile(r"(projects/[^/]+/secrets/[^/]+)"), r"secretmanager/\1"),
    (re.compile(r"(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)"), r"cloudkms/\1"),
    (re.compile(r"(projects/[^/]+/(global|regions/[^/]+)/(sub)?networks/[^/]+)"), r"compute/\1"),
)
"""What a stack file on GCP names that others own, and its name on localcloud. On AWS nothing asks for such things."""


def lay_out(base: Base, stack: str, folder: Path) -> bool:
    """Write a commit's version of the project into a folder; False if the commit does not have the stack."""
    git.extract(base.commit, (*project.CODE, "stacks", *project.HOMES), folder)
    path = project.settings_file(stack, folder)
    if not path.is_file():
        return False
    project.write_settings(path, project.without_secrets(path))
    # The base runs with the packages that are installed now.
    if (project.ROOT / ".venv").exists():
        (folder / ".venv").symlink_to(project.ROOT / ".venv")
    return True


def config(stack: str, folder: Path) -> dict[str, Any]:
    """Our keys in a base's stack file, and its region, by full keys, as data that JSON can hold."""
    settings = read_file(project.settings_file(stack, folder))
    ours = (f"{project.project_name(stack)}:", "aws:region", "gcp:region")
    return json.loads(json.dumps({k: v for k, v in settings["config"].items() if k.startswith(ours)}, default=str))


def bring_up(base: Base, stack: str, folder: Path, today: Path, cloud: Cloud | GcpCloud) -> frozenset[str]:
    """Put the base's stack into the state that it has when it is up, without protection, for a preview on it.

    The engine stops a preview at the first protected resource that it would delete, and does not show what follows.
    A base that came up before is not brought up again: its state is kept (`kept_bases`).

    Args:
        today: The project folder in which the stack was created; its stack file has the salt and GCP's project.

    Returns:
        The URNs of what was protected.

    Raises:
        click.ClickException: It does not come up, or was on another cloud.
    """
    _same_place(base, stack, folder, today)
    if isinstance(cloud, GcpCloud):
        settings = read_file(project.settings_file(stack, folder))
        cloud.control("adopt", names=sorted(foreign(settings)))
    # What changes while the base comes up belongs to the next review's key.
    name = kept_bases.key(base, stack) if kept_bases.used() else None
    kept = _kept(base, stack, cloud, name)
    state = kept or _made(base, stack, folder, cloud)
    deployment = json.loads(state)
    protected = frozenset(each["urn"] for each in _resources(deployment) if each.pop("protect", False))
    file = (folder / _STATE).absolute()
    file.write_text(json.dumps(deployment), encoding="utf-8")
    code, text = _pulumi(stack, ["stack", "import", "--file", str(file)], folder, cloud.env, _COMMAND_SECONDS)
    if code:
        raise click.ClickException(f"{stack}: the engine does not take the state of {base}: {reason(text)}")
    if name and not kept:
        _keep(name, state, cloud)
    return protected


def _kept(base: Base, stack: str, cloud: Cloud | GcpCloud, name: str | None) -> str | None:
    """The state of a base that came up before, at home in a cloud that now has what it had; None if none is kept."""
    if name is None or (kept := kept_bases.read(name)) is None:
        return None
    click.echo(f"{stack}: comparing with {base}, as it came up before ...", err=True)
    if isinstance(cloud, GcpCloud):
        cloud.control("restore", resources=json.loads(json.dumps(kept.resources).replace(_ADDRESS, _address(cloud))))
    return kept.state.replace(_ADDRESS, _address(cloud))


def _made(base: Base, stack: str, folder: Path, cloud: Cloud | GcpCloud) -> str:
    """Bring the base up and return its state."""
    click.echo(f"{stack}: bringing up {base} on localcloud to compare with ...", err=True)
    up = ["up", "--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress"]
    code, text = _pulumi(stack, up, folder, cloud.env, _UP_SECONDS)
    if code:
        raise click.ClickException(
            f"{stack}: the base {base} does not come up on localcloud, so there is nothing to compare with: "
            f"{reason(text)} Name another commit with --base, or compare with your account: --on login."
        )
    code, state = _pulumi(stack, ["stack", "export"], folder, cloud.env, _COMMAND_SECONDS)
    if code:
        raise click.ClickException(f"{stack}: the engine does not tell the state of {base}: {reason(state)}")
    return state


def _keep(name: str, state: str, cloud: Cloud | GcpCloud) -> None:
    """Keep a state that the engine has taken."""
    # On AWS a preview asks for nothing that the stack itself has made.
    there = cloud.control("resources") if isinstance(cloud, GcpCloud) else {}
    resources = json.loads(json.dumps(there).replace(_address(cloud), _ADDRESS))
    kept_bases.write(name, KeptBase(state.replace(_address(cloud), _ADDRESS), resources))


def _resources(deployment: dict[str, Any]) -> list[dict[str, Any]]:
    return deployment["deployment"].get("resources") or []


def _address(cloud: Cloud | GcpCloud) -> str:
    return cloud.url.removeprefix("http://")


def foreign(value: Any) -> set[str]:
    """localcloud's names for the resources of others that a stack file names."""
    if isinstance(value, dict):
        return {name for each in value.values() for name in foreign(each)}
    if isinstance(value, list):
        return {name for each in value for name in foreign(each)}
    matches = [(pattern.match(str(value)), name) for pattern, name in _FOREIGN]
    return {match.expand(name) for match, name in matches if match}


def _same_place(base: Base, stack: str, folder: Path, today: Path) -> None:
    """Copy what `stack init` wrote into today's stack file to the base's, with localcloud's project."""
    path = project.settings_file(stack, folder)
    settings, now = (read_file(each) for each in (path, project.settings_file(stack, today)))
    name = project.project_name(stack)
    clouds = [each["config"].get(f"{name}:cloud", DEFAULT) for each in (settings, now)]
    if clouds[0] != clouds[1]:
        raise click.ClickException(
            f"{stack}: it is on {clouds[0]} in {base} and on {clouds[1]} now. A stack cannot move; make another one."
        )
    settings["encryptionsalt"] = now["encryptionsalt"]
    if "gcp:project" in now["config"]:
        settings["config"]["gcp:project"] = now["config"]["gcp:project"]
    project.write_settings(path, settings)


def _pulumi(stack: str, words: list[str], folder: Path, env: Mapping[str, str], timeout: float) -> tuple[int, str]:
    command = ["pulumi", *words, "--stack", project.engine_name(stack), "--non-interactive"]
    return output(command, cwd=project.program(stack, folder), env=env, timeout=timeout)


def reason(text: str) -> str:
    """The engine's first error as one line, without its closing line."""
    lines = [line.partition("error:")[2].strip() for line in text.splitlines() if "error:" in line]
    kept = [line for line in lines if line and not re.fullmatch(r"(update|preview) failed", line)]
    first = kept[0] if kept else " ".join(text.split())[-400:]
    return first if first.endswith(".") else f"{first}."
