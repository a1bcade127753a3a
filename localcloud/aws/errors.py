"""Refusals in the shape of each service's protocol."""

from __future__ import annotations

import json
import uuid
from xml.sax.saxutils import escape

from localcloud.aws.wsgi import StartResponse, respond


class AwsError(Exception):
    """A refusal that the caller sees.

    Args:
        code: The error code in the query protocol and S3.
        message: The text for the caller.
        status: HTTP status.
    """

    def __init__(self, code: str, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


# The JSON protocols and EC2 have other names for the same refusal:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
JSON_CODES = {
    "AccessDenied": "AccessDeniedException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "SignatureDoesNotMatch": "InvalidSignatureException",
    "MissingAuthenticationToken": "MissingAuthenticationTokenException",
    "ExpiredToken": "ExpiredTokenException",
}
EC2_CODES = {
    "AccessDenied": ("UnauthorizedOperation", 403),
    "InvalidClientTokenId": ("AuthFailure", 401),
    "SignatureDoesNotMatch": ("AuthFailure", 401),
}
S3_CODES = {"InvalidClientTokenId": "InvalidAccessKeyId", "MissingAuthenticationToken": "AccessDenied"}


def answer_error(error: AwsError, protocol: str, start_response: StartResponse) -> list[bytes]:
    """Answer a refusal.

    Args:
        error: The refusal.
        protocol: ``json``, ``rest-json``, ``rest-xml``, ``query`` or ``ec2``, as botocore's service models name them.
        start_response: The WSGI callable.
    """
    request, message = str(uuid.uuid4()), escape(error.message)
    if protocol in {"json", "rest-json"}:
        code = JSON_CODES.get(error.code, error.code)
        body = json.dumps({"__type": code, "message": error.message}).encode()
        # awsJson answers client errors with 400, rest-json with the modelled status.
        status = 400 if protocol == "json" and error.status < 500 else error.status
        kind = "application/json" if protocol == "rest-json" else "application/x-amz-json-1.1"
        return respond(start_response, status, body, kind, x_amzn_ErrorType=code, x_amzn_RequestId=request)
    if protocol == "ec2":
        code, status = EC2_CODES.get(error.code, (error.code, error.status))
        xml = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            f"<RequestID>{request}</RequestID></Response>"
        )
        return respond(start_response, status, xml.encode(), "text/xml")
    if protocol == "rest-xml":
        code = S3_CODES.get(error.code, error.code)
        xml = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>{request}</RequestId></Error>"
        )
        return respond(start_response, error.status, xml.encode(), "application/xml", x_amz_request_id=request)
    xml = (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{error.code}</Code><Message>{message}</Message></Error>"
        f"<RequestId>{request}</RequestId></ErrorResponse>"
    )
    return respond(start_response, error.status, xml.encode(), "text/xml")
