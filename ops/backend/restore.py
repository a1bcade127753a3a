"""`python -m ops restore`: a stack's state from an older version that the bucket keeps."""

import contextlib
import getpass
import gzip
import json
import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice
from typing import NoReturn
from urllib.parse import parse_qs, urlsplit

import click

from components.config.errors import nearest
from components.rooms import CLOUDS
from ops.backend import Bucket, Version
from ops.clouds import facts
from ops.engine import answered
from ops.project import engine_name, every_file, named, project_name
from tidemill.visible import visible

_SHOWN = 20
"""An `up` writes a version for each step."""
_ENDINGS = (".json", ".json.gz")
"""Of a state; the second with PULUMI_DIY_BACKEND_GZIP.
Source: https://github.com/pulumi/pulumi/tree/master/pkg/backend/diy"""
_META = "meta.yaml"
"""Says how the backend's paths are laid out. Without it the engine finds no stack."""


@click.command()
@click.option("--stack", required=True, help="The stack, as its file is called; bootstrap/NAME and shared/NAME too.")
@click.option("--version", help="The version to make the state again.")
@click.option("--unlock", is_flag=True, help="Take away the locks of the stack, whoever holds them.")
def restore(stack: str, version: str | None, unlock: bool) -> None:
    """List the versions of a stack's state in your backend's bucket, newest first, or restore one of them.

    Restoring makes a new version with the content of an older one, so nothing is lost by it. It works where the state
    is damaged or deleted, and needs no stack file. Compare with the cloud afterwards: `python -m ops drift`.

    Exits 1 if the bucket refuses or the stack is locked, 2 if an argument is wrong.
    """
    bucket, folder = _bucket()
    try:
        backend = Backend(bucket, folder, stack)
        if version is None:
            click.echo(backend.listing())
        else:
            for line in backend.restored(version, unlock=unlock):
                click.echo(line)
    except bucket.refusals as error:
        raise click.ClickException(f"the bucket of the backend refuses: {error}") from None


class Backend:
    """A stack in the bucket.

    Args:
        folder: Below which the engine keeps everything, with a slash at its end.
    """

    def __init__(self, bucket: Bucket, folder: str, stack: str) -> None:
        self._bucket, self._folder, self._stack = bucket, folder, stack
        place = f"{project_name(stack)}/{engine_name(stack)}"
        self._state, self._locks = f"{folder}stacks/{place}", f"{folder}locks/organization/{place}/"
        found = [each for each in bucket.versions(self._state) if each.name in self._names]
        self._versions = sorted(found, key=lambda each: (each.written, each.live), reverse=True)
        if not self._versions:
            guess = nearest(stack, [each for each in map(named, every_file()) if each != stack])
            raise click.UsageError(
                f"--stack {stack}: the bucket has no version of {self._state}.json."
                f"{f' Did you mean {guess}?' if guess else ''} A version is kept for 30 days after the next one."
            )

    @property
    def _names(self) -> list[str]:
        return [f"{self._state}{ending}" for ending in _ENDINGS]

    def listing(self) -> str:
        """The newest versions with what they hold, and the next command."""
        rows = [(each, self._held(each)) for each in islice(self._versions, _SHOWN)]
        lines = [f"{'':4}  {'written':<20}  {'version':<32}  holds"]
        for each, held in rows:
            now = "now" if each.live else ""
            lines.append(f"{now:4}  {each.written:%Y-%m-%dT%H:%M:%SZ}  {each.id:<32}  {held}")
        if len(self._versions) > len(rows):
            lines.append(f"and {len(self._versions) - len(rows)} older ones")
        lines += [f"locked: {lock}" for lock in self._held_locks().values()]
        command = f"python -m ops restore --stack {self._stack} --version {self._proposed(rows)}"
        return "\n".join([*lines, "", f"To make one the state again: {command}"])

    def restored(self, version: str, *, unlock: bool) -> list[str]:
        """Make a version the state again; returns what was done."""
        chosen = next((each for each in self._versions if each.id == version and not each.deletion), None)
        if chosen is None:
            raise click.UsageError(
                f"--version {version}: the state of {self._stack} has no such version; leave it out."
            )
        content = self._bucket.read(chosen)
        if (resources := _resources(chosen, content)) is None:
            raise click.UsageError(f"--version {version}: it is no whole state; choose another one.")
        with self._lock(unlock=unlock) as taken:
            self._bucket.write(chosen.name, content)
            done = [f"The state of {self._stack} is that of {chosen.written:%Y-%m-%dT%H:%M:%SZ} again: {resources}."]
            done += [f"Unlocked: {told}." for told in taken]
            done += self._with_meta()
        return [*done, f"Compare it with the cloud: python -m ops drift --stack {self._stack}"]

    @contextlib.contextmanager
    def _lock(self, *, unlock: bool) -> Iterator[list[str]]:
        """Hold the stack's lock as the engine does: who writes one and then sees another gives way.

        Yields:
            Who held the locks that were taken away.

        Raises:
            click.ClickException: Somebody holds one, or took one at this moment.
        """
        before = self._held_locks()
        if before and not unlock:
            self._refuse(before, "then add --unlock")
        own = f"{self._locks}{uuid.uuid4()}.json"
        self._bucket.write(own, _own_lock())
        try:
            now = self._held_locks()
            if new := {name: told for name, told in now.items() if name not in (own, *before)}:
                self._refuse(new, "then try again")
            for name in before:
                self._bucket.delete(name)
            yield [*before.values()]
        finally:
            self._bucket.delete(own)

    def _refuse(self, locks: Mapping[str, str], then: str) -> NoReturn:
        raise click.ClickException(
            f"{self._stack} is locked: {'; '.join(locks.values())}. See that nobody's `pulumi` works on it, {then}."
        )

    def _with_meta(self) -> list[str]:
        """Restore the backend's own file where it is gone or empty."""
        name = f"{self._folder}{_META}"
        kept = sorted((each for each in self._bucket.versions(name) if each.name == name), key=lambda e: e.written)
        whole = [each for each in kept if not each.deletion and b"version:" in self._bucket.read(each)]
        if not whole or whole[-1].live:
            return []
        self._bucket.write(name, self._bucket.read(whole[-1]))
        return [f"{name} was damaged or gone, and is restored."]

    def _held_locks(self) -> dict[str, str]:
        """Who holds each lock, as it says itself."""
        live = [each for each in self._bucket.versions(self._locks) if each.live and not each.deletion]
        return {each.name: _holder(self._bucket.read(each)) for each in live}

    def _held(self, version: Version) -> str:
        if version.deletion:
            return "nothing: deleted"
        return _resources(version, self._bucket.read(version)) or "damaged: no whole state"

    def _proposed(self, rows: list[tuple[Version, str]]) -> str:
        whole = (each.id for each, held in rows if not each.live and "resource" in held)
        return next(whole, "VERSION")


def _resources(version: Version, content: bytes) -> str | None:
    """How many resources a state has; None if it is not whole."""
    try:
        text = gzip.decompress(content) if version.name.endswith(".gz") else content
        latest = json.loads(text)["checkpoint"].get("latest") or {}
        count, pending = (len(latest.get(key) or []) for key in ("resources", "pending_operations"))
    except (ValueError, OSError, EOFError, KeyError, TypeError, AttributeError):
        return None
    unsure = f", {pending} not finished" if pending else ""
    return f"{count} resource{'' if count == 1 else 's'}{unsure}"


def _own_lock() -> bytes:
    """A lock as the engine writes it, with what it tells people who meet it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    since = datetime.now(UTC).isoformat()
    lock = {"pid": os.getpid(), "username": user, "hostname": socket.gethostname(), "timestamp": since}
    return json.dumps(lock).encode()


def _holder(content: bytes) -> str:
    """Source: lockContent in https://github.com/pulumi/pulumi/blob/master/pkg/backend/diy/lock.go"""
    try:
        lock = json.loads(content)
        told = f"by {lock['username']} on {lock['hostname']} (process {lock['pid']}) since {lock['timestamp']}"
        # Whoever deploys may write a lock, and an administrator's terminal shows it.
        return visible(" ".join(told.split()))
    except (ValueError, KeyError, TypeError):
        return "by a lock that cannot be read"


def _bucket() -> tuple[Bucket, str]:
    """The bucket of the backend that the engine is logged in to, and the engine's folder in it."""
    url = os.environ.get("PULUMI_BACKEND_URL") or answered("whoami", "--json")["url"]
    cloud = next((each for each in CLOUDS if url.startswith(facts(each).BACKEND)), None)
    if cloud is None:
        schemes = ", ".join(facts(each).BACKEND for each in CLOUDS)
        raise click.UsageError(f"the backend is {url}: only a bucket ({schemes}) keeps versions. Log in: pulumi login")
    parts = urlsplit(url)
    region = parse_qs(parts.query).get("region", [None])[0]
    folder = "/".join([*filter(None, [parts.path.strip("/")]), ".pulumi/"])
    return import_module(f"ops.backend.{cloud}").opened(parts.netloc, region), folder
