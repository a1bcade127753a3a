"""Webhooks: an HTTPS address that takes a JSON object with `text`, as chat programs do."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import IO, Any, Literal

from tidemill import layout
from tidemill.ending.address import check_address
from tidemill.ending.gate import UntoldError
from tidemill.ending.message import Message
from tidemill.ending.public import NotPublicError, PublicHttps, look_up
from tidemill.ending.tries import TRY_SECONDS, passing, persist
from tidemill.errors import CallerError
from tidemill.store import Store

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""Characters that Slack reads as commands: https://docs.slack.dev/messaging/formatting-message-text#escaping."""


_NOT_PUBLIC = "its address is not public, so only the job's machines may send there"
Where = Literal["here", "machine", "person"]
"""Who sends: a machine that runs its own jobs, which may also use plain HTTP to itself; a machine of a queue, which
sends wherever its programs may; a person's, which sends to public addresses, because the job's programs may have
replaced the address (ADR 95)."""


class Webhook:
    """Sends messages to the webhook of a job."""

    def __init__(self, store: Store, where: Where) -> None:
        self._store, self._where = store, where
        public = [PublicHttps()] if where == "person" else []
        self._opener = urllib.request.build_opener(_NoRedirect(), *public)

    def send(self, message: Message) -> None:
        """Send a message; another try follows where it may help.

        Raises:
            UntoldError: The receiver did not take it.
        """
        url, _ = self._address(message.job)
        body = json.dumps({"text": message.text.translate(_ESCAPES)}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "tidemill", "Tidemill-Id": message.id}
        persist(lambda: self._post(urllib.request.Request(url, body, headers)))

    def refusal(self, job: str) -> str:
        """Why this machine may not send the messages of a job, though another one might; else empty."""
        try:
            _, host = self._address(job)
            if self._where == "person":
                look_up(host, 443)
        except UntoldError as error:
            return str(error)
        except NotPublicError:
            return _NOT_PUBLIC
        except OSError:
            pass  # Trying says more.
        return ""

    def _address(self, job: str) -> tuple[str, str]:
        """The address and its host. Anybody who may write to the store could have put another one there."""
        url = (self._store.find(layout.webhook(job)) or b"").decode(errors="replace")
        try:
            return url, check_address(url, here=self._where == "here")
        except CallerError:
            raise UntoldError("the job's address is missing or damaged") from None

    def _post(self, request: urllib.request.Request) -> tuple[str, bool]:
        """Post the message. Returns the problem, empty when the message was taken, and True if it may pass."""
        try:
            with self._opener.open(request, timeout=TRY_SECONDS):
                return "", False
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code}", passing(error.code)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # Its text may hold the address.
            reason = getattr(error, "reason", error)
            if isinstance(reason, NotPublicError):
                return _NOT_PUBLIC, False
            slow = isinstance(reason, TimeoutError)
            return "no answer in time" if slow else f"no connection ({type(reason).__name__})", True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the message to a place that the user has not named."""

    def redirect_request(  # noqa: PLR0917 as the base has it
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None
