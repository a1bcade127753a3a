"""Calls to Google's REST APIs with a machine's own account. No library of Google's is needed for it.

The standard variables ``CLOUDSDK_API_ENDPOINT_OVERRIDES_<API>`` (a base URL) are honoured:
https://cloud.google.com/sdk/gcloud/reference/config/set (``api_endpoint_overrides``).
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol


class ApiError(Exception):
    """A call that failed, with its HTTP status as `code`; None when there was no answer."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class Token(Protocol):
    """Gives access tokens."""

    def __call__(self, *, fresh: bool = False) -> str:
        """A token; a new one when the last was refused."""
        ...


class Api:
    """One API, by its base URL with a trailing slash. Without a `token` calls are made without a login."""

    def __init__(self, endpoint: str, token: Token | None, *handlers: urllib.request.BaseHandler) -> None:
        self._endpoint, self._token = endpoint, token
        self._opener = urllib.request.build_opener(*handlers)

    def post(self, path: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Make a call and return the JSON of its answer; `ApiError` after an error, or no answer in so many seconds."""
        return self._call(path, json.dumps(body).encode(), seconds)

    def get(self, path: str, seconds: float) -> dict[str, Any]:
        """The same for a call that only reads."""
        return self._call(path, None, seconds)

    def _call(self, path: str, body: bytes | None, seconds: float) -> dict[str, Any]:
        try:
            try:
                return self._try(path, body, seconds, fresh=False)
            except urllib.error.HTTPError as error:
                if error.code != 401 or self._token is None:
                    raise
                return self._try(path, body, seconds, fresh=True)
        except urllib.error.HTTPError as error:
            raise ApiError(f"{error.code} {_said(error)}", error.code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(str(error) or type(error).__name__) from None

    def _try(self, path: str, body: bytes | None, seconds: float, *, fresh: bool) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", **self._login(fresh)}
        request = urllib.request.Request(self._endpoint + path, body, headers)
        with self._opener.open(request, timeout=seconds) as answer:
            return json.loads(answer.read() or b"{}")

    def _login(self, fresh: bool) -> dict[str, str]:
        if self._token is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self._token(fresh=fresh)}"}
        except (OSError, ValueError, KeyError) as error:
            raise ApiError(f"this machine's account gives no access token: {error}") from None


def endpoint_of(api: str, env: Mapping[str, str]) -> str:
    """The base URL of an API (`pubsub`, `logging`), with a trailing slash."""
    override = env.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}")
    return f"{override.rstrip('/')}/" if override else f"https://{api}.googleapis.com/"


def _said(error: urllib.error.HTTPError) -> str:
    """The message of an error of Google's APIs, or its HTTP reason without one."""
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
