"""A site: a pipeline's descriptor, its job store and its queues, as one caller reaches them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from tidemill import layout
from tidemill.backends import Backend
from tidemill.backends.clouds import open_backend
from tidemill.backends.findings import UP, access_command
from tidemill.descriptor import SCHEMA_VERSION, Descriptor
from tidemill.errors import CallerError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.store import Store, Stores
from tidemill.store.errors import NO_LOGIN, OTHER_REGION
from tidemill.version import __version__

Log = Callable[[str], None]
"""Takes remarks for people, a sentence each."""


@dataclass(frozen=True)
class Site:
    """Where a pipeline's jobs are kept and run.

    Attributes:
        descriptor: What the stack made.
        store: Its job store.
        given: A backend other than the cloud's own, for tests and for local runs.
    """

    descriptor: Descriptor
    store: Store
    given: Backend | None = field(default=None, repr=False)

    @cached_property
    def backend(self) -> Backend:
        return self.given or open_backend(self.descriptor, self.store)

    @property
    def local(self) -> bool:
        """Whether jobs run on this machine, and only while `tidemill run` does."""
        return self.descriptor.cloud == "local"

    def stores(self) -> Stores:
        """The stores of items and outputs, with the caller's own login. A pipeline of this machine is in no region:
        theirs is what the environment says."""
        return Stores(self.store, None if self.local else self.descriptor.region, user_login=True)

    def run_command(self, job: str) -> str | None:
        """The command that continues a job where no cloud runs it; None where one does."""
        if not self.local:
            return None
        # Imported late: it needs fcntl, which Windows does not have.
        from tidemill.backends.local import run_command

        return run_command(self.store.uri, job)

    @property
    def has_packages(self) -> bool:
        """Whether programs run where the caller's own packages are, so that none is installed for them."""
        return self.given is not None and self.given.has_packages

    @property
    def whole_cpus(self) -> bool:
        """Whether items need whole CPUs. Known without the cloud's SDK, so that a mistake is reported before a login
        is needed."""
        return self.given.whole_cpus if self.given else self.descriptor.cloud == "aws"


def read_site(uri: str) -> Site:
    """The site of a stack, read with the caller's own login.

    Args:
        uri: URI of `pipeline.json`, or its path.

    Raises:
        CallerError: It is not there, or not a descriptor that this version reads.
        CloudError: No login, or the store refused.
    """
    if not isinstance(uri, str) or not uri:
        advice = "Give the stack's output pipeline_uri; a variable that holds it may not be set."
        raise CallerError.about("uri", uri, "the URI of a pipeline.json", advice)
    if "://" not in uri:
        uri = Path(uri).absolute().as_uri()
    folder, _, name = uri.rpartition("/")
    if name != layout.DESCRIPTOR:
        advice = "Give the stack's output pipeline_uri."
        raise CallerError.about("pipeline", uri, f"a URI that ends with /{layout.DESCRIPTOR}", advice)
    try:
        data = _open(folder).get(layout.DESCRIPTOR)
    except StoreMissingError:
        advice = "Give the stack's output pipeline_uri (`pulumi stack output pipeline_uri`)."
        command = "pulumi stack output pipeline_uri"
        raise CallerError(
            f"pipeline: {uri} does not exist.", advice, what="pipeline", command=command, owner=True
        ) from None
    except StoreDeniedError as error:
        raise StoreDeniedError(
            f"pipeline: {uri} cannot be read: {denial(error)}.",
            login_advice(error),
            code=error.code,
            what="pipeline",
            command=access_command(uri),
            owner=True,
        ) from error
    except StoreError as error:
        if error.code != OTHER_REGION:
            raise
        command = "export AWS_REGION=$(pulumi stack output --json pipeline | jq -r .region)"
        raise CallerError(
            f"pipeline: {uri} is in another region.",
            "Set AWS_REGION to the stack's region.",
            what="pipeline",
            command=command,
        ) from error
    descriptor = parse_descriptor(data, uri)
    return Site(descriptor, _open(descriptor.store, descriptor.region))


def parse_descriptor(data: bytes, uri: str) -> Descriptor:
    """A descriptor from its bytes.

    Raises:
        CallerError: It is not JSON, of another schema version, or incomplete.
    """
    try:
        values = json.loads(data)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise CallerError(
            f"pipeline: {uri} is not a pipeline descriptor (expected a JSON object).",
            "Give the output pipeline_uri.",
            what="pipeline",
            command=UP,
            owner=True,
        )
    version = values.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise CallerError(
            f"pipeline: {uri} has schema_version {version!r}; tidemill {__version__} reads {SCHEMA_VERSION}.",
            what="pipeline",
            value=repr(version),
            allowed=str(SCHEMA_VERSION),
            command="pip install --upgrade tidemill",
        )
    try:
        return Descriptor.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CallerError(
            f"pipeline: {uri}: {where}: {first['msg']}.",
            "Ask the stack's owner to run `pulumi up`.",
            what="pipeline",
            command=UP,
            owner=True,
        ) from None


def denial(error: StoreDeniedError) -> str:
    """Why a store refused: its own name of the refusal, or the words of the login's provider."""
    if error.code and error.code != NO_LOGIN:
        return error.code
    if error.code:
        return "no AWS login was found" if error.__cause__ else error.problem.rstrip(".")
    return (
        str(error.__cause__ or error.problem).strip().splitlines()[0].rpartition("credential provider: ")[2].rstrip(".")
    )


_BAD_LOGIN = re.compile(r"InvalidAccessKeyId|Expired|InvalidClientTokenId|InvalidToken|SignatureDoesNotMatch")


def login_advice(error: StoreDeniedError) -> str:
    """What somebody whom a store refused can do about it."""
    if error.code == NO_LOGIN:
        return error.fix or "Log in, e.g. `aws sso login`."
    if _BAD_LOGIN.match(error.code):
        return "Your login's key is unknown or has expired: log in again, e.g. `aws sso login`, or set AWS_PROFILE."
    return "Log in as a user of this stack, or ask its owner to let you submit (tidemill:access.submitters)."


def _open(uri: str, region: str | None = None) -> Store:
    if not uri.startswith("s3://"):
        return Store.open(uri, user_login=True)
    from tidemill.backends.aws.session import default_session, translated

    region = region or default_session().region_name
    with translated("login"):
        return Store.open(uri, region=region, user_login=True)
