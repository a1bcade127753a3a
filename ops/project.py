"""The Pulumi project of this repository, and writable copies of it."""

from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from components.config import ConfigError, StackConfig, bootstrap_models, from_file, shared_models
from components.config.bootstrap_models import BootstrapConfig
from components.config.errors import nearest
from components.config.home_files import HomeProject
from components.config.load import read_file
from components.config.shared_models import SharedConfig

ROOT = Path(__file__).resolve().parents[1]
STACKS = ROOT / "stacks"
POLICY = ROOT / "policy"

CODE = ("Pulumi.yaml", "__main__.py", "components", "tidemill")
"""The files and folders of a stack's program."""


class Home(NamedTuple):
    """A project beside the stacks', and the policy pack's config that judges it."""

    project: HomeProject[BootstrapConfig] | HomeProject[SharedConfig]
    policies: str


HOMES = {"bootstrap": Home(bootstrap_models.PROJECT, "account"), "shared": Home(shared_models.PROJECT, "shared")}
"""The folders of the projects beside the stacks': an administrator's. A stack of theirs is named with its folder,
`bootstrap/account`."""
_LINKED = (*CODE, "policy", ".venv")
# Keys that tie a stack file to the backend that keeps its secrets.
_SECRETS = ("secretsprovider", "encryptedkey", "encryptionsalt")


AnyConfig = StackConfig | BootstrapConfig | SharedConfig
"""The config of a stack of this repository."""


def home_of(stack: str) -> str:
    """The folder of the project that a stack is of: `bootstrap` or `shared`; empty for a stack of stacks/."""
    folder = stack.partition("/")[0]
    return folder if folder in HOMES and "/" in stack else ""


def project_name(stack: str) -> str:
    """The name of the project that a stack is of, which its keys begin with."""
    return HOMES[home].project.name if (home := home_of(stack)) else "tidemill"


def engine_name(stack: str) -> str:
    """A stack's name to the engine, which knows it within its project."""
    return stack.removeprefix(f"{home_of(stack)}/")


def program(stack: str, root: Path | None = None) -> Path:
    """The folder of a stack's project, where the engine runs.

    Args:
        root: A copy of the repository.
    """
    return (root or ROOT) / home_of(stack)


def settings_file(stack: str, root: Path) -> Path:
    """The path of a stack's file in a copy of the repository."""
    return root / (home_of(stack) or "stacks") / f"Pulumi.{engine_name(stack)}.yaml"


def every_file(stacks: Path | None = None) -> list[Path]:
    """The files of all stacks: those of stacks/, and of the projects beside it."""
    folder = stacks or STACKS
    homes = (path for home in HOMES for path in sorted((folder.parent / home).glob("Pulumi.*.yaml")))
    return [*sorted(folder.glob("Pulumi.*.yaml")), *homes]


def named(path: Path, stacks: Path | None = None) -> str:
    """The name of a file's stack."""
    name = path.stem.removeprefix("Pulumi.")
    return name if path.parent == (stacks or STACKS) else f"{path.parent.name}/{name}"


def of_file(path: Path, stack: str) -> AnyConfig:
    """The config in the file of a stack.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    home = home_of(stack)
    return HOMES[home].project.from_file(path) if home else from_file(path)


def told(path: Path, problem: ConfigError | str) -> str:
    """A problem of a stack file that is one of several, with the file's name once."""
    return f"{path.name}: {str(problem).removeprefix(f'{path.name}: ')}"


def stack_file(stack: str) -> Path:
    """Return the path of a stack's file.

    Raises:
        click.UsageError: There is no such stack; the message lists the stacks.
    """
    path = settings_file(stack, STACKS.parent) if home_of(stack) else STACKS / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        names = [named(each) for each in every_file()]
        guess = nearest(stack, [name for name in names if home_of(name) == home_of(stack)])
        meant = f" Did you mean {guess}?" if guess else ""
        folder = home_of(stack) or "stacks"
        raise click.UsageError(
            f"--stack {stack}: there is no {folder}/{path.name}.{meant} Stacks: {', '.join(names) or 'none'}."
        )
    return path


def read_config(stack: str) -> StackConfig:
    """Read the file of a stack of stacks/.

    Raises:
        click.UsageError: There is none, or it is wrong.
    """
    config = read_any(stack)
    if not isinstance(config, StackConfig):
        raise click.UsageError(f"--stack {stack}: it has no queues; name a stack of stacks/.")
    return config


def read_any(stack: str) -> AnyConfig:
    """Read a stack's file, which may be one of bootstrap/ or shared/.

    Raises:
        click.UsageError: There is none, or it is wrong.
    """
    path = stack_file(stack)
    try:
        return of_file(path, stack)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def environment_of(stack: str, config: AnyConfig) -> str:
    """The name of the policy pack's config for a stack."""
    return config.environment if isinstance(config, StackConfig) else HOMES[home_of(stack)].policies


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
    for home in {home_of(stack) for stack in stacks} - {""}:
        (folder / home).mkdir()
        for entry in ((ROOT / home / "Pulumi.yaml"), *(ROOT / home).glob("*.py")):
            (folder / home / entry.name).symlink_to(entry)
    for stack in stacks:
        write_settings(settings_file(stack, folder), without_secrets(stack_file(stack)))
    return folder


def without_secrets(path: Path) -> dict[str, Any]:
    """A stack file's settings without those that tie it to the backend of its secrets."""
    return {key: value for key, value in read_file(path).items() if key not in _SECRETS}


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write a stack file, without comments."""
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
