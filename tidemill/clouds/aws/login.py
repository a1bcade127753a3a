"""The check of `tidemill doctor` that the caller has a valid login to AWS."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidemill.clouds.aws.session import client, default_session, translated
from tidemill.clouds.findings import Finding
from tidemill.errors import CloudError

if TYPE_CHECKING:
    import boto3


def check_login(session: boto3.Session | None = None) -> tuple[Finding, str | None]:
    """Who the caller is, and the account's id; None without a valid login.

    Raises:
        CallerError: boto3 is not installed, or AWS_PROFILE names no profile.
    """
    session = session or default_session()
    try:
        with translated("sts:GetCallerIdentity"):
            caller = client("sts", session.region_name or "us-east-1", session).get_caller_identity()
    except CloudError as error:
        return Finding("login", "fault", str(error), _login_command(session)), None
    return Finding("login", "ok", f"{caller['Arn']} ({_origin(session)})"), caller["Account"]


def _origin(session: boto3.Session) -> str:
    credentials = session.get_credentials()
    method = credentials.method if credentials else ""
    return "keys of the environment" if method == "env" else f"profile {session.profile_name}, {method}"


def _login_command(session: boto3.Session) -> str:
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"
    profile = session.profile_name
    settings = session._session.full_config["profiles"].get(profile, {})
    if settings.keys() & {"sso_session", "sso_start_url"}:
        return f"aws sso login --profile {profile}"
    if "credential_process" in settings:
        return settings["credential_process"]
    return f"aws configure --profile {profile}"
