"""The Pulumi project of this repository, and writable copies of it."""

from pathlib import Path
from typing import Any

import click
import yaml

from components.config import ConfigError, StackConfig, from_file
from components.config.errors import nearest

ROOT = Path(__file__).resolve().parents[1]
STACKS = ROOT / "stacks"
POLICY = ROOT / "policy"

CODE = ("Pulumi.yaml", "__main__.py", "components", "tidemill")
"""The files and folders of a stack's program."""
_LINKED = (*CODE, "policy", ".venv")
# Keys that tie a stack file to the backend that keeps its secrets.
_SECRETS = ("secretsprovider", "encryptedkey", "encryptionsalt")


def stack_file(stack: str) -> Path:
    """Return the path of a stack's file.

    Raises:
        click.UsageError: There is no such stack; the message lists the stacks.
    """
    path = STACKS / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        names = sorted(p.stem.removeprefix("Pulumi.") for p in STACKS.glob("Pulumi.*.yaml"))
        guess = nearest(stack, names)
        meant = f" Did you mean {guess}?" if guess else ""
        raise click.UsageError(
            f"--stack {stack}: there is no stacks/{path.name}.{meant} Stacks: {', '.join(names) or 'none'}."
        )
    return path


def read_config(stack: str) -> StackConfig:
    """Read a stack's file.

    Raises:
        click.UsageError: There is none, or it is wrong.
    """
    try:
        return from_file(stack_file(stack))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def policy_config(environment: str) -> Path:
    """Return the policy pack's config for an environment: its strictness and parameters.

    Args:
        environment: A stack's `tidemill:environment`; one without a file of its own gets `default.json`.
    """
    own = POLICY / "environments" / f"{environment}.json"
    return own if own.is_file() else own.with_name("default.json")


def policy_options(environment: str) -> list[str]:
    """Options of `pulumi preview` and `pulumi up` for the policy pack of an environment."""
    return ["--policy-pack", str(POLICY), "--policy-pack-config", str(policy_config(environment))]


def copy_project(folder: Path, *stacks: str) -> Path:
    """Lay out the project in an empty folder, with stack files of its own, and return the folder.

    `pulumi stack init` and `pulumi config set` write into stack files, and a stack file names the key of its secrets. A
    trial on localcloud must not change the repository, so the code is linked and the stack files are copied.
    """
    for name in _LINKED:
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    (folder / "stacks").mkdir()
    for stack in stacks:
        write_settings(folder / "stacks" / f"Pulumi.{stack}.yaml", without_secrets(stack_file(stack).read_text()))
    return folder


def without_secrets(text: str) -> dict[str, Any]:
    """A stack file's settings without those that tie it to the backend of its secrets."""
    return {key: value for key, value in (yaml.safe_load(text) or {}).items() if key not in _SECRETS}


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write a stack file, without comments."""
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
