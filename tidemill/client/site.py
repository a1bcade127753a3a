"""A site: a pipeline's descriptor, its job store and its queues, as one caller reaches them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from tidemill import clouds, layout, services
from tidemill.clouds.account import Account
from tidemill.clouds.findings import UP, Checks, Finding, access_command
from tidemill.descriptor import SCHEMA_VERSION, Descriptor
from tidemill.errors import CallerError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.services import Service
from tidemill.services.backend import Backend, QueueState
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
    _backends: dict[str, Backend] = field(default_factory=dict, init=False, repr=False, compare=False)

    def backend(self, queue: str) -> Backend:
        """How a queue's chunks reach machines, opened when it is first needed."""
        if self.given:
            return self.given
        service = self.service(queue)
        if service.name not in self._backends:
            account = next((each.account for each in self._backends.values()), None)
            self._backends[service.name] = open_backend(service, self.descriptor, self.store, account)
        return self._backends[service.name]

    @property
    def account(self) -> Account:
        """The caller's account in the cloud."""
        return self.backend(min(self.descriptor.queues, default="")).account

    def queue_states(self) -> dict[str, QueueState]:
        """The state of each queue by its name."""
        groups = services.by_service(self.descriptor.cloud, self.descriptor.queues).values()
        states = (self.backend(min(queues)).queue_states(queues) for queues in groups)
        return {name: state for some in states for name, state in some.items()}

    @property
    def local(self) -> bool:
        """True if jobs run on this machine, and only while `tidemill run` does."""
        return self.descriptor.cloud == "local"

    def stores(self) -> Stores:
        """The stores of items and outputs, with the caller's own login. A pipeline of this machine is in no region:
        theirs is what the environment says."""
        granted = (*self.descriptor.readable_prefixes, *self.descriptor.output_prefixes)
        return Stores(self.store, None if self.local else self.descriptor.region, user_login=True, granted=granted)

    def run_command(self, job: str) -> str | None:
        """The command that continues a job where no cloud runs it; None where one does."""
        if not self.local:
            return None
        # Imported late: it needs fcntl, which Windows does not have.
        from tidemill.services.local.backend import run_command

        return run_command(self.store.uri, job)

    @property
    def has_packages(self) -> bool:
        """True if programs run where the caller's own packages are, so that none is installed for them."""
        return self.given is not None and self.given.has_packages

    def service(self, queue: str) -> Service:
        """The record of a queue's service; of one that the stack has no more, that of its cloud. Known without the
        cloud's SDK, so that a mistake is reported before a login is needed."""
        return services.of_queue(self.descriptor.cloud, self.descriptor.queues.get(queue))

    @property
    def reconciled(self) -> bool:
        """True if a reconciler keeps the fleet of one of the queues."""
        return any(self.service(queue).reconciled for queue in self.descriptor.queues)


def open_backend(service: Service, descriptor: Descriptor, store: Store, account: Account | None) -> Backend:
    """The backend of a service in a pipeline.

    Args:
        account: The caller's, where it is open already.
    """
    cloud = clouds.find(descriptor.cloud)
    assert cloud
    account = account or cloud.part("account").open_account(descriptor)
    return service.part("backend").open_backend(descriptor, store, account)


def check_login(uri: str) -> tuple[Finding, str | None] | None:
    """Check the caller's login to the cloud of a store; also the account's id, where a login has one. None where no
    login is needed.

    Raises:
        CallerError: The cloud's SDK is missing, or AWS_PROFILE names no profile.
    """
    cloud = clouds.of_uri(uri)
    return cloud.part("login").check_login() if cloud and cloud.login else None


def open_checks(uri: str, descriptor: Descriptor) -> list[tuple[Checks, Descriptor]]:
    """The checks of each service of a pipeline, each with the descriptor of its queues; none where no login is needed.

    Raises:
        CallerError: The cloud's SDK is missing, or AWS_PROFILE names no profile.
    """
    cloud = clouds.of_uri(uri)
    if cloud is None or not cloud.login:
        return []
    groups = services.by_service(descriptor.cloud, descriptor.queues).items()
    own = [(service, descriptor.model_copy(update={"queues": queues})) for service, queues in groups]
    return [(service.part("checks").open_checks(part), part) for service, part in own]


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
        # Opening a store of this machine makes its folder.
        if folder.startswith("file://") and not Path(unquote(urlsplit(folder).path)).is_dir():
            raise StoreMissingError(folder)
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
        descriptor = Descriptor.model_validate(values)
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
    if clouds.find(descriptor.cloud) is None:
        raise CallerError.about(
            "cloud",
            descriptor.cloud,
            "a cloud of this version or of an installed package",
            f"Install the package that has it, where {uri} is used.",
        )
    for name, queue in descriptor.queues.items():
        try:
            services.of_queue(descriptor.cloud, queue)
        except LookupError:
            raise CallerError.about(
                f"queues.{name}.service",
                queue.service,
                f"a service for {descriptor.cloud}, of this version or of an installed package",
                f"Install the package that has it, where {uri} is used.",
            ) from None
    return descriptor


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
    """Advice for a caller whom a store refused."""
    if error.code == NO_LOGIN:
        return error.fix or "Log in, e.g. `aws sso login`."
    if _BAD_LOGIN.match(error.code):
        return "Your login's key is unknown or has expired: log in again, e.g. `aws sso login`, or set AWS_PROFILE."
    return (
        "Log in as a user of this stack, or ask its owner to let you submit (tidemill:access.submitters). If the stack "
        "was destroyed, its jobs and results went with it."
    )


def _open(uri: str, region: str | None = None) -> Store:
    if not uri.startswith("s3://"):
        return Store.open(uri, user_login=True)
    from tidemill.clouds.aws.session import default_session, translated

    region = region or default_session().region_name
    with translated("login"):
        return Store.open(uri, region=region, user_login=True)
