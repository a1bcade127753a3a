"""Caller identity: bearer tokens, the OAuth token endpoint, and service-account files for google-auth."""

from __future__ import annotations

import functools
import secrets
import threading
import time
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from localcloud.gcp.wire import Request, Response, RestError

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""https://developers.google.com/identity/protocols/oauth2/service-account#httprest"""


class Tokens:
    """Tokens by principal. A token ends after `lifetime` seconds of the wall clock, independent of the cloud's clock:
    its holder counts `expires_in` on its own clock.
    """

    def __init__(self, lifetime: float = 3600.0) -> None:
        self.lifetime = lifetime
        self._tokens: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def issue(self, principal: str) -> dict[str, Any]:
        """A new token of a principal: `{"access_token": …, "expires_in": seconds, "token_type": "Bearer"}`."""
        token = f"ya29.{secrets.token_urlsafe(32)}"
        with self._lock:
            self._tokens = {key: value for key, value in self._tokens.items() if value[1] > time.time()}
            self._tokens[token] = (principal, time.time() + self.lifetime)
        return {"access_token": token, "expires_in": int(self.lifetime), "token_type": "Bearer"}

    def principal(self, token: str) -> str:
        """The principal of a token, empty when it is unknown or has expired."""
        with self._lock:
            principal, end = self._tokens.get(token, ("", 0.0))
        return principal if end > time.time() else ""

    def authenticate(self, request: Request) -> str:
        """The principal of a request, empty without `Authorization`.

        Raises:
            RestError: 401: the token is unknown or has expired.
        """
        header = request.headers.get("authorization", "")
        if not header:
            return ""
        kind, _, token = header.partition(" ")
        principal = self.principal(token) if kind.lower() == "bearer" else ""
        if not principal:
            raise RestError(401, "Request had invalid authentication credentials. Expected OAuth 2 access token.")
        return principal

    @functools.cached_property
    def _keys(self) -> tuple[str, str]:
        """The private and public PEM of every service-account file of this cloud."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return private.decode(), public.decode()

    def key_file(self, email: str, project: str, url: str) -> dict[str, str]:
        """A service-account file (`GOOGLE_APPLICATION_CREDENTIALS`) for tokens of this cloud."""
        return {
            "type": "service_account",
            "project_id": project,
            "private_key_id": "localcloud",
            "private_key": self._keys[0],
            "client_email": email,
            "client_id": "1",
            "token_uri": f"{url}/token",
        }

    def exchange(self, request: Request, exists: Any) -> Response:
        """The token endpoint: exchanges a signed assertion for a token of its issuer.

        Args:
            exists: email → whether such an account exists.
        """
        form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        if form.get("grant_type") != GRANT:
            return Response.of({"error": "unsupported_grant_type"}, 400)
        try:
            claims = jwt.decode(form["assertion"], certs=self._keys[1], audience=None)
        except (KeyError, ValueError) as error:
            return Response.of({"error": "invalid_grant", "error_description": str(error)}, 400)
        if not exists(claims["iss"]):
            return Response.of({"error": "invalid_grant", "error_description": "account not found"}, 400)
        return Response.of(self.issue(f"serviceAccount:{claims['iss']}"))
