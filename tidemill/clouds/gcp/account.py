"""A project of Google Cloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemill.clouds.account import Account, LogLine, LogSearch
from tidemill.clouds.gcp.logs import find
from tidemill.clouds.gcp.secrets import GcpSecrets
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.descriptor import Descriptor
from tidemill.ending.pubsub import publish_body


class GcpAccount(Account):
    """A stack's project, used with the caller's own login; without a session, the default one."""

    log_poll_seconds = 10.0
    """Six reads per minute of the sixty that a project has."""
    log_late_seconds = 900.0
    """A worker keeps trying to send its lines for minutes."""

    def __init__(self, descriptor: Descriptor, session: GoogleSession | None = None) -> None:
        super().__init__()
        self._log, self._secret = descriptor.log_group, descriptor.secrets
        self.session = session or GoogleSession(descriptor.account)
        self.clock = self.session.clock

    def user(self) -> str:
        return self.session.user()

    def secrets(self) -> GcpSecrets | None:
        return GcpSecrets(self.session, self._secret) if self._secret else None

    def publish(self, topic: str, subject: str, text: str, fields: Mapping[str, str]) -> None:
        body = publish_body(text, fields)
        self.session.call("pubsub", "POST", f"v1/{topic}:publish", body, action="pubsub.topics.publish")

    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        return find(self.session, self._log, search)


open_account = GcpAccount
