"""Webhooks: an HTTPS address that takes a JSON object with `text`, as chat programs do."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import IO, Any
from urllib.parse import urlsplit

from tidemill import layout
from tidemill.ending.address import may_send
from tidemill.ending.gate import UntoldError
from tidemill.ending.message import Message
from tidemill.ending.tries import TRY_SECONDS, passing, persist
from tidemill.store import Store

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""What Slack reads as commands: https://docs.slack.dev/messaging/formatting-message-text#escaping."""


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
        if not may_send(urlsplit(url), here=True):
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
    """A redirect would carry the message to a place that the user has not named."""

    def redirect_request(  # noqa: PLR0917 as the base has it
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None
