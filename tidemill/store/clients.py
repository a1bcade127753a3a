"""Clients of S3 and Cloud Storage: their time limits, retries and logins."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from obstore.store import GCSStore, S3Store

from tidemill.errors import CallerError, StoreDeniedError
from tidemill.store.errors import NO_LOGIN, first_line

GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "TIDEMILL_LOGIN"
"""The variable that says `machine` where a program has the login of the machine on Google Cloud that it runs on, and
not that of a person. It needs no google-auth, which the worker's image does not have."""
_RETRY: Any = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2},
}
# `timeout` covers a whole transfer, so it is long; `read_timeout` covers a store that hangs.
_CLIENT: Any = {
    "timeout": timedelta(hours=2),
    "read_timeout": timedelta(seconds=30),
    "connect_timeout": timedelta(seconds=10),
}


def s3_store(uri: str, region: str | None, user_login: bool) -> S3Store:
    """A bucket of S3, see `Store.open`."""
    options = _s3_options(region)
    # Keys of the environment come first for boto3, too; without it a worker starts sooner, with 20 MB less.
    if user_login and not all(os.environ.get(key) for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")):
        from obstore.auth.boto3 import Boto3CredentialProvider

        try:
            options["credential_provider"] = Boto3CredentialProvider()
        except ValueError as error:
            raise StoreDeniedError(
                f"{uri}: no AWS login was found ({error}).", "Log in, e.g. `aws sso login`.", code=NO_LOGIN
            ) from None
    return S3Store.from_url(uri, **options)


def _s3_options(region: str | None) -> dict[str, Any]:
    region = region or next(
        (os.environ[k] for k in ("TIDEMILL_REGION", "AWS_REGION", "AWS_DEFAULT_REGION") if os.environ.get(k)), None
    )
    options: dict[str, Any] = {"client_options": dict(_CLIENT), "retry_config": _RETRY}
    if region:
        options["region"] = region
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["endpoint"] = endpoint
        options["client_options"]["allow_http"] = endpoint.startswith("http://")
    return options


def gcs_store(uri: str, region: str | None, user_login: bool) -> GCSStore:
    """A bucket of Cloud Storage, see `Store.open`; its region is not needed."""
    options = _gcs_options()
    if user_login and not has_machine_login():
        options["credential_provider"] = _google_login(uri)
    return GCSStore.from_url(uri, **options)


def _gcs_options() -> dict[str, Any]:
    options: dict[str, Any] = {"client_options": dict(_CLIENT), "retry_config": _RETRY}
    if os.environ.get("GOOGLE_BASE_URL", "").startswith("http://"):
        options["client_options"]["allow_http"] = True
    return options


def unsigned_store(uri: str, region: str | None) -> S3Store | GCSStore:
    """A bucket of S3 or Cloud Storage, as the public sees it: no request has a login."""
    if uri.startswith("s3://"):
        return S3Store.from_url(uri, **_s3_options(region), skip_signature=True)
    return GCSStore.from_url(uri, **_gcs_options(), skip_signature=True)


def has_machine_login() -> bool:
    """True if the login is that of the machine; see `LOGIN`."""
    return os.environ.get(LOGIN) == "machine"


OBJECT_STORES: dict[str, Callable[[str, str | None, bool], Any]] = {"s3": s3_store, "gs": gcs_store}
"""How the object stores are opened, by the schemes of their URIs; see `Store.open`."""


def _google_login(uri: str) -> Any:
    """The application default credentials of the person at the keyboard, workload identity among them.

    With a scope: a service account's key and some workload identity files get no token without one.
    """
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from obstore.auth.google import GoogleCredentialProvider
    except ImportError:
        raise CallerError(
            f"{uri} is on GCP, and google-auth is missing.", command="pip install 'tidemill[gcp]'"
        ) from None
    try:
        return GoogleCredentialProvider(google.auth.default(scopes=[GOOGLE_SCOPE])[0])
    except GoogleAuthError as error:
        advice = "Log in: gcloud auth application-default login."
        raise StoreDeniedError(
            f"{uri}: no Google login was found ({first_line(error)}).", advice, code=NO_LOGIN
        ) from None
