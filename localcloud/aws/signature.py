"""Checks Signature Version 4: botocore's own signer computes what the client should have sent.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
Signed chunks of ``aws-chunked`` bodies are not checked individually; the seed signature and the headers are.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlencode

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from localcloud.aws import accounts
from localcloud.aws.errors import AwsError
from localcloud.aws.wsgi import Environ

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?"
    r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$"
)
HEX_DIGEST = re.compile(r"[0-9a-f]{64}$")


@dataclass(frozen=True)
class Scope:
    """What the Authorization header claims."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str


def read_scope(environ: Environ) -> Scope | None:
    """Return the request's credential scope, or None if its headers do not sign it."""
    found = AUTHORIZATION.match(environ.get("HTTP_AUTHORIZATION", ""))
    if not found:
        return None
    key, date, region, service, headers, signature = found.groups()
    return Scope(key, date, region, service, tuple(headers.split(";")), signature)


def authenticate(environ: Environ, scope: Scope) -> accounts.Principal:
    """Return the caller if the signature, the session token and the body's hash are right.

    Raises:
        AwsError: InvalidClientTokenId, InvalidToken, ExpiredToken, SignatureDoesNotMatch or a wrong body hash.
    """
    key = accounts.find_key(scope.access_key)
    token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
    if key is None or token != key.token:
        raise AwsError("InvalidClientTokenId", "The security token included in the request is invalid.")
    if key.expires and key.expires < datetime.now(UTC):
        raise AwsError("ExpiredToken", "The security token included in the request is expired")
    if not hmac.compare_digest(_expected(environ, scope, key.secret), scope.signature):
        message = "The request signature we calculated does not match the signature you provided."
        raise AwsError("SignatureDoesNotMatch", message)
    claimed = environ.get("HTTP_X_AMZ_CONTENT_SHA256", "")
    if HEX_DIGEST.match(claimed) and claimed != hashlib.sha256(environ["localcloud.body"]).hexdigest():
        raise AwsError("XAmzContentSHA256Mismatch", "The provided x-amz-content-sha256 does not match the body.", 400)
    return key.principal


def _expected(environ: Environ, scope: Scope, secret: str) -> str:
    kind = _S3Signer if scope.service == "s3" else _Signer
    signer = kind(Credentials(scope.access_key, secret), scope.service, scope.region)
    headers = HTTPHeaders()
    for name in scope.signed_headers:
        if (value := _header(environ, name)) is not None:
            headers[name] = value
    request = AWSRequest(
        method=environ["REQUEST_METHOD"],
        url=f"http://{environ['HTTP_HOST']}{_canonical(environ['RAW_URI'])}",
        headers=headers,
        data=environ["localcloud.body"],
    )
    request.context["timestamp"] = environ.get("HTTP_X_AMZ_DATE", scope.date)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert isinstance(expected, str)
    return expected


def _canonical(uri: str) -> str:
    """Encode a path and its query as they are signed, whichever form the client sent: `%7E` equals `~`."""
    path, mark, query = uri.partition("?")
    return path + mark + urlencode(parse_qsl(query, keep_blank_values=True), quote_via=quote, safe="-_.~")


def _header(environ: Environ, name: str) -> str | None:
    key = name.upper().replace("-", "_")
    return environ.get(key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}")


class _AsSigned:
    """A signer of exactly the headers that the client says it signed."""

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        return request.headers


class _Signer(_AsSigned, SigV4Auth):
    pass


class _S3Signer(_AsSigned, S3SigV4Auth):
    pass
