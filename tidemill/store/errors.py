"""Errors of obstore as errors of ours."""

from __future__ import annotations

import errno
import re

from obstore.exceptions import InvalidPathError, NotSupportedError, PermissionDeniedError, UnauthenticatedError

from tidemill.errors import (
    CallerError,
    ObjectNameError,
    StoreDeniedError,
    StoreError,
    StoreMissingError,
    StoreUnavailableError,
)

NO_LOGIN = "NoLogin"
"""Code of an error: there is no login at all."""
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk's quota is used up",
    errno.EROFS: "the disk is read-only",
}
_NO_ROOM = re.compile(r"quota|storagefull", re.IGNORECASE)
"""In codes of stores that are full: `QuotaExceeded` (Ceph), `XMinioStorageFull`, `XMinioAdminBucketQuotaExceeded`,
`quotaExceeded` (Cloud Storage)."""
OTHER_REGION = "PermanentRedirect"
"""Code of an error: the bucket is in another region, as S3 names it."""


def as_exception(error: BaseException) -> Exception:
    """An error that a caller may handle: an exception as it is, a panic of a library in Rust as a `RuntimeError`.

    PyO3 raises a panic as something that is not an `Exception`
    (https://docs.rs/pyo3/latest/pyo3/panic/struct.PanicException.html). Anything else is raised.
    """
    if isinstance(error, Exception):
        return error
    if type(error).__name__ == "PanicException":
        return RuntimeError(f"{type(error).__name__}: {error}")
    raise error


def translated(error: Exception, verb: str, uri: str) -> Exception:
    """An error of obstore as one of ours; only `StoreError` itself may pass when tried again."""
    why = _takes_no_more(error) if verb == "PUT" else ""
    if why:
        return StoreUnavailableError(f"PUT of {uri} failed: {why}.", code=_code(error))
    return _translated(error, verb, uri)


def _translated(error: Exception, verb: str, uri: str) -> Exception:
    no_bucket = verb == "LIST" and "status code: 404" in str(error)
    if no_bucket or isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return StoreMissingError(f"{'The bucket of ' * no_bucket}{uri} does not exist.")
    # For a listing, obstore reports a refusal only in its text.
    refused = isinstance(error, (PermissionDeniedError, UnauthenticatedError, PermissionError))
    if refused or any(status in str(error) for status in ("status code: 401 Un", "status code: 403 Forbidden")):
        return StoreDeniedError(f"{verb} of {uri} was refused: {_answer(error)}", code=_code(error))
    if isinstance(error, NotSupportedError) or "<Code>NotImplemented</Code>" in str(error):
        return CallerError.about(
            "store", uri, "a store with conditional create", "Use one that supports If-None-Match."
        )
    if isinstance(error, InvalidPathError) or "Could not parse path" in str(error):
        return _unreadable(uri, error)
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or isinstance(error, (InterruptedError, StoreError, CallerError)):
        return error
    return StoreError(f"{verb} of {uri} failed: {_answer(error)}", code=_code(error))


def _unreadable(uri: str, error: Exception) -> ObjectNameError:
    """The error for a name that obstore refuses. For a listing, only obstore's text has the name."""
    named = re.search(r'Path "(.*?)"[ :]', str(error), re.DOTALL)
    return ObjectNameError(
        f"{uri}: the name {(named[1] if named else uri)!r} has an empty, `.` or `..` part or a control character, and "
        "cannot be read.",
        "Rename the object, or list only the others. A program can still read it by its {uri}.",
    )


def _code(error: Exception) -> str:
    text = str(error)
    if code := re.search(r"<Code>(\w+)</Code>", text):
        return code[1]
    if "Received redirect" in text:
        return OTHER_REGION
    return NO_LOGIN if "Received None" in text else ""


def _takes_no_more(error: Exception) -> str:
    """Why a store takes no writes until somebody makes room; empty for other errors."""
    text = str(error)
    if full := re.search(r"\(os error (\d+)\)", text):
        return _FULL.get(int(full[1]), "")
    refused = "status code: 507" in text or _NO_ROOM.search(f"{_code(error)} {_reason(text)}")
    return f"the store takes no more data: {_answer(error)}" if refused else ""


def _reason(text: str) -> str:
    """The reason that the JSON API of Cloud Storage gives."""
    found = re.search(r'"reason": *"(\w+)"', text)
    return found[1] if found else ""


def _answer(error: Exception) -> str:
    """The store's answer without the request; for other errors their first line."""
    text = str(error)
    if code := re.search(r"<Code>(\w+)</Code>", text):
        message = re.search(r"<Message>(.*?)</Message>", text, re.DOTALL)
        return f"{code[1]}: {message[1]}" if message and message[1] != code[1] else code[1]
    if message := re.search(r'"message": *"((?:[^"\\]|\\.)*)"', text):
        return message[1]
    return first_line(error).rpartition("non-2xx status code: ")[2]


def first_line(error: Exception) -> str:
    """An error's first line, or its kind when it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
