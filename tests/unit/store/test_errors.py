"""Answers of stores as errors of ours."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from tidemill.errors import StoreDeniedError, StoreError, StoreUnavailableError
from tidemill.store.errors import translated

S3 = 'response error "<Error><Code>{}</Code><Message>no</Message></Error>", after 0 retries: status code: {}'
GCS = 'Server returned non-2xx status code: 403: {{"error": {{"errors": [{{"reason": "{}"}}], "message": "no"}}}}'


@pytest.mark.parametrize(
    "answer",
    [
        GenericError("Unable to copy data to file: No space left on device (os error 28)"),
        GenericError("Unable to open file: Disk quota exceeded (os error 122)"),
        GenericError("Unable to open file: Read-only file system (os error 30)"),
        GenericError(S3.format("XMinioStorageFull", "507 Insufficient Storage")),
        PermissionDeniedError(S3.format("QuotaExceeded", "403 Forbidden")),
        PermissionDeniedError(GCS.format("quotaExceeded")),
    ],
)
def test_a_write_that_there_is_no_room_for_is_the_stores_fault(answer):
    assert type(translated(answer, "PUT", "s3://b/x")) is StoreUnavailableError
    assert type(translated(answer, "GET", "s3://b/x")) is not StoreUnavailableError


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (GenericError(S3.format("SlowDown", "503 Service Unavailable")), StoreError),
        (GenericError("Unable to open file: File name too long (os error 36)"), StoreError),
        (GenericError(S3.format("KeyTooLongError", "400 Bad Request") + " quota (os error 5)"), StoreError),
        (PermissionDeniedError(S3.format("AccessDenied", "403 Forbidden")), StoreDeniedError),
        (PermissionDeniedError(GCS.format("forbidden")), StoreDeniedError),
    ],
)
def test_any_other_refused_write_says_nothing_of_the_next(answer, kind):
    assert type(translated(answer, "PUT", "s3://b/quota/x")) is kind
