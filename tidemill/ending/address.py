"""The address of a webhook: its check, and its object in the store.

It is a secret, because anyone who knows it can write there. It has an object of its own in the job store, and appears
in no other, in no log line and in no error.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from tidemill import layout
from tidemill.errors import CallerError
from tidemill.store import Store

LONGEST = 2048
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ALLOWED = "https://HOST/PATH, without a login in it"


def check_address(url: str, *, here: bool) -> str:
    """The host of a webhook's address.

    Args:
        url: The address.
        here: Whether jobs run on this machine, where plain HTTP to the machine itself is allowed.

    Raises:
        CallerError: It is none. The address is not in the error.
    """
    try:
        parts, printable = urlsplit(url), url.isascii() and url.isprintable() and " " not in url
        host = parts.hostname or ""
        login, _ = parts.username is not None or parts.password is not None, parts.port
    except ValueError:
        raise _wrong("is not an address", "Correct it.") from None
    if login:
        raise _wrong("holds a login", "Use an address whose path is the secret, or a channel of the stack.")
    if not host or not printable or len(url) > LONGEST or not _may_send(parts, here=here):
        raise _wrong(f"begins with {parts.scheme or 'no scheme'!r}" if host else "names no host", "Correct it.")
    return host


def _wrong(problem: str, fix: str) -> CallerError:
    return CallerError(f"notify {problem}; allowed: {_ALLOWED}.", fix, what="notify", allowed=_ALLOWED)


def _may_send(parts: SplitResult, *, here: bool) -> bool:
    """True if messages may go to an address; `here` allows plain HTTP to this machine itself."""
    return parts.scheme == "https" or (parts.scheme == "http" and here and parts.hostname in _LOOPBACK)


def keep_address(store: Store, job: str, url: str) -> None:
    """Write a job's address down, where workers and the team's submitters may read it. The first one stays."""
    store.create(layout.webhook(job), url.encode())
