"""The engine: the Pulumi CLI that the Automation API drives, and its stacks."""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from pulumi import automation
from pulumi.automation import errors

from tidemill.errors import CloudError

from .runs import told

_PASSPHRASE = "passphrase"


@dataclass(frozen=True)
class StateHome:
    """Where states are, as Pulumi names it.

    Attributes:
        backend: The URL of a bucket or a folder.
        secrets_provider: Of their secrets.
    """

    backend: str
    secrets_provider: str


def on_this_machine(folder: Path) -> StateHome:
    """A folder, where states without secrets are for minutes. It is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return StateHome(f"file://{folder}", _PASSPHRASE)


def find() -> automation.PulumiCommand | None:
    """The Pulumi CLI on PATH, or the one that `install` has made; None where there is neither."""
    for root in (None, _root()):
        try:
            return automation.PulumiCommand(root=root)
        except (FileNotFoundError, errors.InvalidVersionError):
            continue
    return None


def install() -> automation.PulumiCommand:
    """Download the Pulumi CLI of the SDK's version into `~/.pulumi/versions`.

    Raises:
        CloudError: It cannot be downloaded.
    """
    try:
        return automation.PulumiCommand.install()
    except (OSError, subprocess.CalledProcessError) as error:
        fix = "Install it yourself: https://www.pulumi.com/docs/install."
        raise CloudError(f"The Pulumi CLI could not be installed: {error}.", fix) from None


def wanted() -> str:
    """The version that `install` takes: that of Pulumi's SDK here."""
    return version("pulumi")


def _root() -> str:
    return str(Path.home() / ".pulumi" / "versions" / wanted())


def open_stack(
    name: str,
    project: str,
    program: Callable[[], None],
    *,
    folder: Path,
    home: StateHome,
    command: automation.PulumiCommand,
    config: Mapping[str, Any] | None = None,
) -> automation.Stack:
    """A stack of a backend, made if it is not there.

    Args:
        folder: Of its file.
        config: The file's content where there is no file; it gets the provider of secrets.
    """
    folder.mkdir(parents=True, exist_ok=True)
    project_file, stack_file = folder / "Pulumi.yaml", folder / f"Pulumi.{name}.yaml"
    if not project_file.exists():
        project_file.write_text(yaml.safe_dump({"name": project, "runtime": "python"}, sort_keys=False))
    if config is not None and not stack_file.exists():
        head = {} if home.secrets_provider == _PASSPHRASE else {"secretsprovider": home.secrets_provider}
        stack_file.write_text(yaml.safe_dump({**head, "config": dict(config)}, sort_keys=False))
    settings = {"PULUMI_BACKEND_URL": home.backend, "PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_CONFIG_PASSPHRASE": ""}
    options = automation.LocalWorkspaceOptions(
        work_dir=str(folder), env_vars=settings, secrets_provider=home.secrets_provider, pulumi_command=command
    )
    with told():
        return automation.create_or_select_stack(name, project_name=project, program=program, opts=options)
