"""Reads personal secrets in a cloud, with a machine's own login. No library of a cloud is needed for it."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from tidemill.errors import CallerError, StoreError
from tidemill.secrets.rules import read_document
from tidemill.worker.channels import TaskLogin, regional, signed
from tidemill.worker.google_api import Api, ApiError, Token, endpoint_of
from tidemill.worker.secrets import OfJob

PAUSES = (0.5, 2.0, 8.0)
"""Seconds before each of the retries of a call that may pass."""
_SECONDS = 20.0
_ASK = "Ask the stack's owner to run `pulumi up`."


class PassingError(Exception):
    """A call of a secret store failed, and may succeed in a moment. The text has no value."""


def given_from(read: Callable[[str], str]) -> OfJob:
    """Secrets of the document that `read` finds under the name of a job's secret store.

    Args:
        read: Returns the document; `""` where nothing was ever set. It may raise `PassingError` and `CallerError`.
    """

    def given(store: str | None, names: Collection[str]) -> Mapping[str, str]:
        if store is None:
            return {}
        document = _patiently(partial(read, store))
        try:
            values = read_document(document) if document else {}
        except ValueError as error:
            raise CallerError(f"{store} is damaged: {error}.", _ASK) from None
        return {name: values[name] for name in names if name in values}

    return given


def _patiently(call: Callable[[], str]) -> str:
    for pause in PAUSES:
        try:
            return call()
        except PassingError:
            time.sleep(pause)
    try:
        return call()
    except PassingError as error:
        raise StoreError(f"secrets: {error}.") from None


class SecretsManager:
    """Secrets of AWS, read as the role of the container's job."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env, self._login = env, TaskLogin(env)

    def read(self, arn: str) -> str:
        """The newest value of a secret; see `given_from`."""
        try:
            with urllib.request.urlopen(self._request(arn), timeout=_SECONDS) as answer:
                return json.loads(answer.read())["SecretString"]
        except urllib.error.HTTPError as error:
            return self._refused(arn, error)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            raise PassingError(f"Secrets Manager does not answer ({type(error).__name__})") from None

    def _request(self, arn: str) -> urllib.request.Request:
        endpoint = self._env.get("AWS_ENDPOINT_URL_SECRETS_MANAGER") or self._env.get("AWS_ENDPOINT_URL")
        try:
            region, url = regional(arn, "secretsmanager", endpoint)
        except ValueError as error:
            raise CallerError(f"{arn} cannot be read: {error}.", _ASK) from None
        body = json.dumps({"SecretId": arn}).encode()
        how = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "secretsmanager.GetSecretValue"}
        headers = signed(url, body, region, self._login(), datetime.now(UTC), service="secretsmanager", headers=how)
        return urllib.request.Request(url, body, headers)

    def _refused(self, arn: str, error: urllib.error.HTTPError) -> str:
        with error, suppress(OSError, ValueError, AttributeError):
            kind = str(json.loads(error.read()).get("__type", "")).rpartition("#")[2]
            if kind == "ResourceNotFoundException":
                return ""
            if kind in ("AccessDeniedException", "AccessDenied", "InvalidRequestException", "DecryptionFailure"):
                raise CallerError(f"{arn} cannot be read: {kind}.", _ASK)
            raise PassingError(f"Secrets Manager answers {kind or error.code}")
        raise PassingError(f"Secrets Manager answers HTTP {error.code}")


class SecretManager:
    """Secrets of GCP, read as the machine's account."""

    def __init__(self, token: Token | None, env: Mapping[str, str]) -> None:
        self._api = Api(endpoint_of("secretmanager", env), token)

    def read(self, name: str) -> str:
        """The newest version of a secret; see `given_from`."""
        try:
            answer = self._api.get(f"v1/{name}/versions/latest:access", _SECONDS)
            return base64.b64decode(answer["payload"]["data"]).decode()
        except ApiError as error:
            if error.code == 404:
                return ""
            if error.code in (400, 403):
                raise CallerError(f"{name} cannot be read: {error}.", _ASK) from None
            raise PassingError(f"Secret Manager does not answer ({error.code or 'no answer'})") from None
        except (ValueError, KeyError, TypeError):
            raise PassingError("Secret Manager gives no value") from None
