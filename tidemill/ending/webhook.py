"""Webhooks: an HTTPS address that takes a JSON object with `text`, as chat programs do.

The address is a secret, because whoever knows it can write there. It has an object of its own in the job store, and is
in no other, in no log line and in no error.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

from tidemill import layout
from tidemill.ending.gate import UntoldError
from tidemill.ending.message import Message
from tidemill.ending.tries import TRY_SECONDS, passing, persist
from tidemill.errors import CallerError
from tidemill.store import Store

LONGEST = 2048
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ALLOWED = "https://HOST/PATH, without a login in it"
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""What Slack reads as commands: https://docs.slack.dev/messaging/formatting-message-text#escaping."""


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
    return parts.scheme == "https" or (parts.scheme == "http" and here and parts.hostname in _LOOPBACK)


def keep_address(store: Store, job: str, url: str) -> None:
    """Write a job's address down, where workers and the team's submitters may read it. The first one stays."""
    store.create(layout.webhook(job), url.encode())


class Webhook:
    """Sends messages to the webhook of a job."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._opener = urllib.request.build_opener(_NoRedirect())

    def send(self, message: Message) -> None:
        """Send a message; another try follows where it may help.

        Raises:
            UntoldError: The receiver did not take it.
        """
        data = self._store.find(layout.webhook(message.job))
        url = (data or b"").decode(errors="replace")
        # Anybody who may write to the store could have put another address there.
        if not _may_send(urlsplit(url), here=True):
            raise UntoldError("the job's address is missing or damaged")
        body = json.dumps({"text": message.text.translate(_ESCAPES)}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "tidemill", "Tidemill-Id": message.id}
        persist(lambda: self._post(urllib.request.Request(url, body, headers)))

    def _post(self, request: urllib.request.Request) -> tuple[str, bool]:
        """What went wrong, and whether that may pass; nothing when the message was taken."""
        try:
            with self._opener.open(request, timeout=TRY_SECONDS):
                return "", False
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code}", passing(error.code)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # Its text may hold the address.
            reason = getattr(error, "reason", error)
            slow = isinstance(reason, TimeoutError)
            return "no answer in time" if slow else f"no connection ({type(reason).__name__})", True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the message to where nobody has asked it to go."""

    def redirect_request(  # noqa: PLR0917 as the base has it
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None
