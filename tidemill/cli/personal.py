"""The personal pipeline of `tidemill up` and `down`: its place, its folder, and the components that make it."""

from __future__ import annotations

import fcntl
import getpass
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidemill import clouds
from tidemill.clouds.homes import FoundHome, home_name
from tidemill.errors import CallerError, CloudError

NAME = r"[a-z][a-z0-9-]{0,19}"
CLOUDS = [cloud.name for cloud in clouds.every() if cloud.login]
PLACE = ("cloud", "name", "folder", "region", "project")
"""Options that say which pipeline is meant."""
Say = Callable[[str], Any]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which pipeline is meant."""
    for option in (
        click.option(
            "--folder",
            type=click.Path(file_okay=False, path_type=Path),
            help="Of the stack file.  [default: below your config folder]",
        ),
        click.option("--project", metavar="ID", default="", help="GCP: the project.  [default: of your environment]"),
        click.option("--region", default="", help="The cloud's region.  [default: of your login]"),
        click.option(
            "--name", help="Whose pipeline it is; its team.  [default: that of your stack file, else your login name]"
        ),
        click.option(
            "--cloud", type=click.Choice(CLOUDS), help=f"[default: that of your stack file, else {CLOUDS[0]}]"
        ),
        click.option("--unlock", is_flag=True, help="Remove the lock of a command that was killed."),
    ):
        command = option(command)
    return command


class Personal:
    """A person's pipeline in an account.

    Args:
        cloud: The cloud, or None for that of the stack file.
        name: Whose it is, or None for that of the stack file, else the login name on this machine.
        folder: Of the stack file, or None for the default.
        region: As typed; empty for the one of the stack file, or of the login.
        project: The same of GCP's project.

    Raises:
        CallerError: A name is wrong, the components are not installed, or the login is of another account than the
            stack file's.
        CloudError: There is no valid login.
    """

    def __init__(self, cloud: str | None, name: str | None, folder: Path | None, region: str, project: str) -> None:
        self.folder = folder or Path(click.get_app_dir("tidemill"), "personal")
        self.cloud, self.name = meant(self.folder, cloud, name)
        self._named = name is not None
        self.components = components(self.cloud)
        self._room = import_module(f"tidemill.clouds.{self.cloud}.homes")
        self.file = self.components.StackFile(self.folder, self.name, self.cloud)
        known = self.file.place() if self.file.path.exists() else ("", "")
        self.account, self.region = self._room.log_in(project or known[0], region or known[1])
        for what, here, there in zip(("account", "region"), (self.account, self.region), known, strict=True):
            if there and here != there:
                raise CallerError(
                    f"{self.file.path} is of the {what} {there}, and this is {here}.",
                    f"Log in to {there}, or give another --folder."
                    if what == "account"
                    else "Leave out --region; another region takes `tidemill down` first.",
                    what="--region" if what == "region" else "login",
                    value=here,
                    allowed=there,
                )

    @property
    def billed_by(self) -> str | None:
        """The command that lists billing accounts; None where an account pays for itself."""
        return self._room.BILLING_ACCOUNTS

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other commands on this machine out.

        Raises:
            CallerError: Another one is at it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CallerError(
                    f"Another `tidemill up` or `down` works in {self.folder}.", "Wait for it, or interrupt it."
                ) from None
            yield

    def home(self) -> Any | None:
        """The home of the state; None where there is none, or none that is finished.

        Raises:
            CallerError: It may be that of somebody else with the same login name: this machine has not used it, and the
                caller has not named it.
            CloudError: as `found_home`.
        """
        if self.home_stack().unfinished:
            return None
        home = self.found_home()
        if home is not None and not (self._named or self.file.bound):
            raise CallerError(
                f"{self.account} has a pipeline of {self.name} already, and this machine has never used it.",
                f"If it is yours, give --name {self.name}. Otherwise give another --name.",
                what="--name",
                value=self.name,
            )
        return home

    def found_home(self) -> Any | None:
        """The home of the state as the account has it; None where there is none.

        Raises:
            CallerError: It is in another region.
            CloudError: It was left half made by another machine.
        """
        found: FoundHome | None = self._room.find_home(self.name, self.account)
        if found is None:
            return None
        if found.region != self.region:
            raise CallerError(
                f"The pipeline of {self.name} in {self.account} is in {found.region}, not in {self.region}.",
                f"Give --region {found.region}.",
                what="--region",
                value=self.region,
                allowed=found.region,
            )
        if not found.secrets_provider:
            raise CloudError(
                f"{found.bucket} has no key: a `tidemill up` or `down` of another machine has not finished.",
                "Type it there again. If that machine is lost, delete the bucket: no pipeline has its state there.",
            )
        return self.components.StateHome(found.backend, found.secrets_provider)

    @cached_property
    def engine(self) -> Any:
        """The Pulumi CLI, which is installed if the person says so."""
        engine = import_module(f"{self.components.__name__}.engine")
        found = engine.find()
        if found is None:
            click.confirm(
                f"The Pulumi CLI is not on PATH. Download version {engine.wanted()} from get.pulumi.com into "
                "~/.pulumi/versions?",
                abort=True,
                err=True,
            )
            found = engine.install()
        return found

    def home_stack(self) -> Any:
        """The stack that makes the home."""
        keys = import_module(f"{self.components.__name__.rpartition('.')[0]}.{self.cloud}.personal").keys
        settings = keys(self.account, self.region)
        state = self.folder / f".{self.file.stack}-home"
        return self.components.HomeStack(
            self.cloud, home_name(self.name), settings=settings, folder=state, command=self.engine
        )

    def stack(self, home: Any | None) -> Any:
        """The pipeline's stack."""
        return self.components.PersonalStack(self.file, self.engine, home)

    def prepare(self) -> None:
        """Make what the account needs beside."""
        self._room.prepare(self.region)


def unlocked(stack: Any | None, home: Any, say: Say) -> None:
    """Remove the lock of a command that was killed, and say what that may have left.

    Args:
        stack: The pipeline's stack; None where there is none.
        home: The stack of its home.
        say: Prints a line.
    """
    locked = home if home.unfinished else stack
    if locked is not None and (begun := locked.unlock()):
        say(
            "Pulumi does not know what became of these, and will not delete them. Look for them in the cloud's console:"
        )
        for each in begun:
            say(f"  {each}")


def meant(folder: Path, cloud: str | None, name: str | None) -> tuple[str, str]:
    """The cloud and the name of a pipeline: as typed, else those of the only stack file that fits, else the defaults.

    Raises:
        CallerError: Several stack files fit, or the name is none.
    """
    there = [StackName.read(path) for path in sorted(folder.glob("Pulumi.*.yaml"))]
    fit = [one for one in there if one and cloud in (None, one.cloud) and name in (None, one.person)]
    default = StackName(cloud or CLOUDS[0], person(name))
    if not fit or default in fit:
        return default
    if len(fit) > 1:
        allowed = ", ".join(f"--cloud {one.cloud} --name {one.person}" for one in fit)
        raise CallerError(
            f"{folder} has the stack files of {len(fit)} pipelines.", f"Say which: {allowed}.", allowed=allowed
        )
    return fit[0]


class StackName(NamedTuple):
    """The cloud and the person of a stack file, which are in its name."""

    cloud: str
    person: str

    @classmethod
    def read(cls, path: Path) -> StackName | None:
        """Those of a file; None where it is no personal pipeline's."""
        others = "|".join(CLOUDS[1:])
        found = re.fullmatch(rf"Pulumi\.({NAME}?)(?:-({others}))?-personal\.yaml", path.name)
        return cls(found[2] or CLOUDS[0], found[1]) if found else None


def person(name: str | None) -> str:
    """A name of the person that a team may have.

    Raises:
        CallerError: The name is none.
    """
    made = name if name is not None else re.sub(r"[^a-z0-9]+", "-", getpass.getuser().lower()).strip("-")[:20]
    if not re.fullmatch(NAME, made):
        allowed = "a lower-case letter, then at most 19 lower-case letters, digits and dashes"
        raise CallerError.about("--name", made, allowed, "Give --name.")
    return made


def components(cloud: str) -> Any:
    """The package that makes personal pipelines.

    Raises:
        CallerError: It is not installed, or the cloud's SDK is not.
    """
    needed = ("tidemill_pulumi", "pulumi", f"pulumi_{cloud}", "pulumi_policy")
    if missing := [name for name in needed if find_spec(name) is None]:
        raise CallerError(
            f"`tidemill up` makes a pipeline with Pulumi, and {missing[0]} is not installed.",
            command=f"pip install 'tidemill[{cloud}]' 'tidemill-pulumi[{cloud}]'",
        )
    return import_module("tidemill_pulumi.personal")
