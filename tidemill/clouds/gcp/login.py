"""The check of `tidemill doctor` that the caller has a valid login to Google Cloud."""

from __future__ import annotations

from tidemill.clouds.findings import Finding, login_fault
from tidemill.clouds.gcp.session import LOGIN, GoogleSession, default_credentials
from tidemill.errors import CallerError, CloudError


def check_login(session: GoogleSession | None = None) -> tuple[Finding, str | None]:
    """Who the caller is. A login of Google's belongs to no project."""
    try:
        session = session or GoogleSession("", default_credentials())
        return Finding("login", "ok", f"{session.user()} (application default credentials)"), None
    except CallerError as error:
        return login_fault(error), None
    except CloudError as error:
        return Finding("login", "fault", str(error), LOGIN), None
