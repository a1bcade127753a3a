"""The base of a change on localcloud: a commit's version of a stack, brought up, its protection recorded and lifted."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from components.rooms import DEFAULT
from localcloud.cloud import Cloud, GcpCloud
from ops import git, project
from ops.processes import output
from ops.review.document import Base

_UP_SECONDS = 600
_COMMAND_SECONDS = 60
_FOREIGN = (
    (re.compile(r"gs://([^/]+)"), r"storage/projects/_/buckets/\1"),
    (re.compile(r"(projects/[^/]+/secrets/[^/]+)"), r"secretmanager/\1"),
    (re.compile(r"(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)"), r"cloudkms/\1"),
    (re.compile(r"(projects/[^/]+/(global|regions/[^/]+)/(sub)?networks/[^/]+)"), r"compute/\1"),
)
"""What a stack file on GCP names that others own, and its name on localcloud. On AWS nothing asks for such things."""


def lay_out(base: Base, stack: str, folder: Path) -> bool:
    """Write a commit's version of the project into a folder; False if the commit does not have the stack."""
    git.extract(base.commit, (*project.CODE, "stacks"), folder)
    path = _stack_file(folder, stack)
    if not path.is_file():
        return False
    project.write_settings(path, project.without_secrets(path.read_text(encoding="utf-8")))
    # The base runs with the packages that are installed now.
    if (project.ROOT / ".venv").exists():
        (folder / ".venv").symlink_to(project.ROOT / ".venv")
    return True


def bring_up(base: Base, stack: str, folder: Path, today: Path, cloud: Cloud | GcpCloud) -> frozenset[str]:
    """Bring the base's stack up and lift every protection, so that a preview on it is complete.

    The engine stops a preview at the first protected resource that it would delete, and does not show what follows.

    Args:
        today: The project folder in which the stack was created; its stack file has the salt and GCP's project.

    Returns:
        The URNs of what was protected.

    Raises:
        click.ClickException: It does not come up, or was on another cloud.
    """
    _same_place(base, stack, folder, today)
    if isinstance(cloud, GcpCloud):
        settings = yaml.safe_load(_stack_file(folder, stack).read_text(encoding="utf-8"))
        cloud.control("adopt", names=sorted(foreign(settings)))
    env = cloud.env
    click.echo(f"{stack}: bringing up {base} on localcloud to compare with ...", err=True)
    up = ["up", "--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress"]
    code, text = _pulumi(stack, up, folder, env, _UP_SECONDS)
    if code:
        raise click.ClickException(
            f"{stack}: the base {base} does not come up on localcloud, so there is nothing to compare with: "
            f"{reason(text)} Name another commit with --base, or compare with your account: --on login."
        )
    _, exported = _pulumi(stack, ["stack", "export"], folder, env, _COMMAND_SECONDS)
    resources = json.loads(exported)["deployment"].get("resources", [])
    _pulumi(stack, ["state", "unprotect", "--all", "--yes"], folder, env, _COMMAND_SECONDS)
    return frozenset(each["urn"] for each in resources if each.get("protect"))


def foreign(value: Any) -> set[str]:
    """localcloud's names for the resources of others that a stack file names."""
    if isinstance(value, dict):
        return {name for each in value.values() for name in foreign(each)}
    if isinstance(value, list):
        return {name for each in value for name in foreign(each)}
    matches = [(pattern.match(str(value)), name) for pattern, name in _FOREIGN]
    return {match.expand(name) for match, name in matches if match}


def _stack_file(folder: Path, stack: str) -> Path:
    return folder / "stacks" / f"Pulumi.{stack}.yaml"


def _same_place(base: Base, stack: str, folder: Path, today: Path) -> None:
    """Copy what `stack init` wrote into today's stack file to the base's, with localcloud's project."""
    path = _stack_file(folder, stack)
    settings, now = (yaml.safe_load(each.read_text(encoding="utf-8")) for each in (path, _stack_file(today, stack)))
    clouds = [each["config"].get("tidemill:cloud", DEFAULT) for each in (settings, now)]
    if clouds[0] != clouds[1]:
        raise click.ClickException(
            f"{stack}: it is on {clouds[0]} in {base} and on {clouds[1]} now. A stack cannot move; make another one."
        )
    settings["encryptionsalt"] = now["encryptionsalt"]
    if "gcp:project" in now["config"]:
        settings["config"]["gcp:project"] = now["config"]["gcp:project"]
    project.write_settings(path, settings)


def _pulumi(stack: str, words: list[str], folder: Path, env: Mapping[str, str], timeout: float) -> tuple[int, str]:
    return output(["pulumi", *words, "--stack", stack, "--non-interactive"], cwd=folder, env=env, timeout=timeout)


def reason(text: str) -> str:
    """The engine's first error as one line, without its closing line."""
    lines = [line.partition("error:")[2].strip() for line in text.splitlines() if "error:" in line]
    kept = [line for line in lines if line and not re.fullmatch(r"(update|preview) failed", line)]
    first = kept[0] if kept else " ".join(text.split())[-400:]
    return first if first.endswith(".") else f"{first}."
