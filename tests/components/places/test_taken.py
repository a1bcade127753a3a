"""The look for another stack's pipeline where Google's provider answers with an error. tests/engine/test_taken.py has
the hook itself. That the provider uses these words is from its source, not from an account."""

from typing import Any

import pulumi_gcp as gcp
import pytest

from components.gcp.pipeline import standing

ABSENT = (
    "projects/-/serviceAccounts/vision-dev-worker@p.iam.gserviceaccount.com not found",
    "Error 403: Identity and Access Management (IAM) API has not been used in project 12 before or it is disabled.",
)
UNKNOWN = (
    "Error 403: Permission 'iam.serviceAccounts.get' denied on resource (or it may not exist)., forbidden",
    "Error 429: Quota exceeded for quota metric 'Read requests', rateLimitExceeded",
    "Error 503: The service is currently unavailable., backendError",
    "context deadline exceeded",
)


@pytest.fixture
def asked(monkeypatch):
    def of(text: str) -> str | None:
        def get_account(**_: Any) -> None:
            raise Exception(f"invocation of gcp:serviceaccount/getAccount:getAccount returned an error: {text}")

        monkeypatch.setattr(gcp.serviceaccount, "get_account", get_account)
        nothing: Any = None
        return standing("vision-dev", nothing, nothing)

    return of


@pytest.mark.parametrize("text", ABSENT)
def test_an_account_that_is_not_there_takes_nothing(asked, text):
    assert asked(text) is None


@pytest.mark.parametrize("text", UNKNOWN)
def test_where_nobody_can_tell_nothing_is_made(asked, text):
    with pytest.raises(Exception, match="getAccount returned an error"):
        asked(text)
