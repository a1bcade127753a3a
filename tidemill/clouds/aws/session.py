"""boto3 clients with the caller's own login, and AWS's refusals in clear words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidemill.errors import CallerError, CloudError, one_line

if TYPE_CHECKING:
    import boto3

CONNECT_SECONDS = 10
READ_SECONDS = 30
ATTEMPTS = 6

DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException")
_LOGIN = "Log in (`aws sso login`, `aws configure`, or AWS_PROFILE) and try again."


def default_session() -> boto3.Session:
    """A session of the caller's default profile.

    Raises:
        CallerError: boto3 is not installed, or AWS_PROFILE names no profile.
    """
    try:
        import boto3
        import botocore.exceptions
    except ImportError:
        raise CallerError(
            "This pipeline is on AWS, and boto3 is missing.", command="pip install 'tidemill[aws]'"
        ) from None
    try:
        return boto3.Session()
    except botocore.exceptions.ProfileNotFound as error:
        raise CallerError(
            f"AWS_PROFILE: {error}.",
            "Use a profile that `aws configure list-profiles` shows.",
            what="AWS_PROFILE",
            command="unset AWS_PROFILE",
        ) from None


def client(service: str, region: str, session: boto3.Session) -> Any:
    """A client that retries throttling and lost connections (botocore's standard mode)."""
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )
    return session.client(service, region_name=region, config=config)


@contextmanager
def translated(action: str, absent: tuple[str, ...] = ()) -> Iterator[None]:
    """Turn botocore's exceptions into a CloudError about an IAM action; codes in `absent` end the block quietly."""
    import botocore.exceptions as aws
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    no_login = (
        aws.NoCredentialsError,
        aws.PartialCredentialsError,
        aws.CredentialRetrievalError,
        aws.SSOError,
        aws.TokenRetrievalError,
    )

    try:
        yield
    except ClientError as error:
        code, text = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if code in absent:
            return
        refusal = CloudError(*_refusal(action, code, text), code=code)
        refusal.denied = code in DENIED
        raise refusal from error
    except no_login as error:
        raise CloudError(f"{action}: no AWS login ({one_line(error)}).", _LOGIN) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise CloudError(f"{action}: AWS could not be asked ({one_line(error)}).", "Check the network.") from error


def _refusal(action: str, code: str, text: str) -> tuple[str, str]:
    if code in DENIED:
        return f"{action} is denied ({text}).", "Ask the stack's owner for its submitter policy or role."
    if code in _EXPIRED:
        return f"{action}: the AWS login is not valid ({text}).", _LOGIN
    return f"{action} was refused: {code}: {text}".rstrip(": "), ""
