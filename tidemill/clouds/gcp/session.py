"""Google's APIs over plain REST with the caller's own login, and Google's refusals in clear words.

Application default credentials (https://cloud.google.com/docs/authentication/application-default-credentials): a
person's `gcloud auth application-default login`, a workload identity file, a service account. A program that has the
login of its machine asks the metadata server instead, without google-auth. Endpoints follow the
variables that gcloud and Google's own clients read: `CLOUDSDK_API_ENDPOINT_OVERRIDES_<API>` and `PUBSUB_EMULATOR_HOST`.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidemill.clouds.clock import CloudClock
from tidemill.errors import CallerError, CloudError, one_line
from tidemill.store.clients import has_machine_login
from tidemill.store.metadata_server import MetadataServer

if TYPE_CHECKING:
    import requests
    from google.auth.credentials import Credentials

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
READ_SECONDS = 60
TIMEOUTS = (10, READ_SECONDS)
"""Seconds to connect, and between two bytes of an answer."""
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each of at most six retries of a failure that may pass, jittered."""
RETRIED = (408, 429, 500, 502, 503, 504)
"""https://cloud.google.com/pubsub/docs/reference/error-codes: retry with back-off."""
LOGIN = "gcloud auth application-default login"

_TOKEN_INFO = "https://oauth2.googleapis.com/tokeninfo"
_SERVICES = {
    "compute": "compute.googleapis.com",
    "pubsub": "pubsub.googleapis.com",
    "monitoring": "monitoring.googleapis.com",
    "logging": "logging.googleapis.com",
    "artifactregistry": "artifactregistry.googleapis.com",
    "storage": "storage.googleapis.com",
    "secretmanager": "secretmanager.googleapis.com",
}


class MissingError(CloudError):
    """The resource of a request does not exist."""


class BusyError(CloudError):
    """A quota is used up for now."""


class DeniedError(CloudError):
    """The login in use may not do this."""

    denied = True


class DisabledError(DeniedError):
    """The project has not enabled the API."""


def default_credentials() -> Credentials:
    """The application default credentials.

    Raises:
        CallerError: google-auth is not installed.
        CloudError: There is no login, or its file cannot be read.
    """
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport import requests as _  # noqa: F401 it needs requests
    except ImportError:
        raise CallerError(
            "This pipeline is on GCP, and google-auth is missing.", command="pip install 'tidemill[gcp]'"
        ) from None
    try:
        return google.auth.default(scopes=[SCOPE])[0]
    except GoogleAuthError as error:
        raise CloudError(f"no Google login was found ({one_line(error)}).", f"Log in: {LOGIN}.") from error


class GoogleSession:
    """Calls of Google's APIs for one project, which pays for their quota. Calls may be made side by side.

    Without credentials, the application default credentials are looked for when they are first needed.
    """

    def __init__(self, project: str, credentials: Credentials | None = None) -> None:
        self.project = project
        self._credentials = credentials
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._plain: requests.Session | None = None
        self.clock = CloudClock()

    def now(self) -> float:
        """Seconds since the epoch by the clock of the cloud's last answer."""
        return self.clock.now()

    def user(self) -> str:
        if self._on_machine:
            return MetadataServer.here().email()
        credentials = self._logged_in()
        for name in ("service_account_email", "account"):
            address = getattr(credentials, name, None)
            if isinstance(address, str) and "@" in address:
                return address
        import requests
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        try:
            if not credentials.valid:
                credentials.refresh(Request())
        except GoogleAuthError as error:
            raise translated(error, "login") from error
        with suppress(requests.RequestException, ValueError, KeyError):
            asked = self._open(False).post(_TOKEN_INFO, data={"access_token": credentials.token}, timeout=TIMEOUTS)
            return str(asked.json()["email"])
        return "unknown"

    def call(
        self,
        api: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        action: str,
        params: dict[str, str] | None = None,
        busy: bool = False,
        accept: str = "",
        pauses: Sequence[float] | None = None,
    ) -> dict[str, Any]:
        """Make a call, and retry failures that may pass, within bounds.

        Args:
            api: A key of `_SERVICES`, or the registry of a location, such as `europe-west1-docker`.
            method: `GET` or `POST`.
            path: The API's own, such as `v1/projects/p/topics/t`.
            body: Sent as JSON.
            action: The permission that it needs, for messages.
            params: Of the query.
            busy: Raise BusyError at once when a quota is used up, instead of trying again.
            accept: Media types of the answer, for a registry. It is asked once: what it tells is only looked at.
            pauses: Seconds before each retry; None for `PAUSES`.

        Raises:
            MissingError: Something of the path is not there.
            DeniedError: The login may not do it, or the API is off.
            CloudError: No login, or no good answer within the bounds.
        """
        base, login = endpoint(api)
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = ({"Content-Type": "application/json"} if data else {}) | ({"Accept": accept} if accept else {})
        for pause in (None,) if accept else (*(PAUSES if pauses is None else pauses), None):
            try:
                session = self._open(login)
                answer = session.request(
                    method, base + path, data=data, params=params, headers=headers, timeout=TIMEOUTS
                )
                self.clock.heard(answer.headers.get("Date"))
                if answer.ok:
                    return answer.json() if answer.content else {}
                failure, passes = refusal(answer.status_code, answer.text, action, api, self.project)
            except (CallerError, CloudError):
                raise
            except Exception as error:
                failure, passes = translated(error, action), may_pass(error)
                failure.__cause__ = error
            if not passes or pause is None or (busy and isinstance(failure, BusyError)):
                raise failure
            time.sleep(pause * random.uniform(0.5, 1.5))
        raise AssertionError("unreachable")

    def find(self, name: str, action: str) -> dict[str, Any] | None:
        """A resource of Pub/Sub by its full name; None where there is none."""
        try:
            return self.call("pubsub", "GET", f"v1/{name}", action=action)
        except MissingError:
            return None

    @property
    def _on_machine(self) -> bool:
        return self._credentials is None and has_machine_login()

    def _logged_in(self) -> Credentials:
        with self._lock:
            if self._credentials is None:
                self._credentials = self._for_quota(default_credentials())
            return self._credentials

    def _for_quota(self, credentials: Credentials) -> Credentials:
        """A person's login names no project that pays: the pipeline's own pays, unless the login names another."""
        from google.oauth2.credentials import Credentials as Person

        if isinstance(credentials, Person) and credentials.quota_project_id is None:
            return credentials.with_quota_project(self.project)
        return credentials

    def _open(self, login: bool) -> requests.Session:
        credentials = self._logged_in() if login and not self._on_machine else None
        with self._lock:
            if login and self._session is None:
                self._session = _pooled(_authorized(credentials) if credentials else _of_machine())
            if not login and self._plain is None:
                import requests

                self._plain = _pooled(requests.Session())
            session = self._session if login else self._plain
        assert session is not None
        return session


def _authorized(credentials: Credentials) -> requests.Session:
    from google.auth.transport.requests import AuthorizedSession

    return AuthorizedSession(credentials, refresh_timeout=READ_SECONDS)


def _of_machine() -> requests.Session:
    """A session with the tokens of the account that this machine has."""
    import requests

    server, session = MetadataServer.here(), requests.Session()

    def log_in(request: requests.PreparedRequest) -> requests.PreparedRequest:
        try:
            request.headers["Authorization"] = f"Bearer {server.token()}"
        except OSError as error:
            raise requests.ConnectionError(f"the metadata server gives no token: {error}") from error
        return request

    session.auth = log_in
    return session


def _pooled(session: requests.Session) -> requests.Session:
    """Connections for calls side by side, and no retries but ours."""
    from requests.adapters import HTTPAdapter

    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_connections=4, pool_maxsize=16, max_retries=0))
    return session


def endpoint(api: str) -> tuple[str, bool]:
    """Base URL of an API, with a slash at its end, and whether it wants a login."""
    if api == "pubsub" and (emulator := os.environ.get("PUBSUB_EMULATOR_HOST")):
        return f"http://{emulator.removeprefix('http://').rstrip('/')}/", False
    override = os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}")
    return (override.rstrip("/") + "/" if override else f"https://{_host(api)}/"), True


def _host(api: str) -> str:
    return f"{api}.pkg.dev" if api.endswith("-docker") else _SERVICES[api]


def refusal(status: int, text: str, action: str, api: str, project: str) -> tuple[CloudError, bool]:
    """Google's error in one line, and whether it may pass.

    Error bodies: https://cloud.google.com/apis/design/errors.
    """
    try:
        error = json.loads(text)["error"]
        message, details = one_line(error.get("message", "")), error.get("details", [])
    except (ValueError, KeyError, TypeError, AttributeError):
        message, details = one_line(text)[:200], []
    reason = next((detail["reason"] for detail in details if isinstance(detail, dict) and detail.get("reason")), "")
    if status == 401:
        return CloudError(f"{action}: the Google login is not valid ({message}).", f"Log in: {LOGIN}."), False
    if "quota project" in message:
        command = f"gcloud auth application-default set-quota-project {project}"
        return DeniedError(f"{action}: the login names no quota project ({message}).", command=command), False
    if reason == "SERVICE_DISABLED":
        command = f"gcloud services enable {_host(api)} --project {project}"
        fix = f"Ask the stack's owner to run `{command}`."
        off = f"{action}: {_host(api)} is off in project {project}."
        return DisabledError(off, fix, command=command, owner=True), False
    if status == 403:
        fix = "Ask the stack's owner to name you in tidemill:access.submitters."
        return DeniedError(f"{action} is denied ({message or 'no reason given'}).", fix), False
    if status == 404:
        return MissingError(f"{action}: {message or 'not found'}."), False
    kind = BusyError if status == 429 else CloudError
    return kind(f"{action} was refused: {status}: {message}".rstrip(": ") + "."), status in RETRIED


def translated(error: Exception, action: str) -> CloudError:
    if isinstance(error, CloudError):
        return error
    login, network = _login_errors()
    if isinstance(error, login) and not isinstance(error, network):
        return CloudError(f"{action}: the Google login is not valid ({one_line(error)}).", f"Log in: {LOGIN}.")
    return CloudError(f"{action}: Google could not be asked ({one_line(error)}).", "Check the network.")


def may_pass(error: Exception) -> bool:
    import requests

    login, network = _login_errors()
    if isinstance(error, (requests.ConnectionError, requests.Timeout, *network)):
        return True
    return isinstance(error, login) and getattr(error, "retryable", False)


def _login_errors() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """google-auth's errors, and those among them of the network; none where google-auth is not installed."""
    try:
        from google.auth.exceptions import GoogleAuthError, TransportError
    except ImportError:
        return (), ()
    return (GoogleAuthError,), (TransportError,)
