"""An account of AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.clouds.account import Account, LogLine, LogSearch
from tidemill.clouds.aws.logs import LogGroup
from tidemill.clouds.aws.secrets import AwsSecrets
from tidemill.clouds.aws.session import client, default_session, translated
from tidemill.descriptor import Descriptor

if TYPE_CHECKING:
    import boto3


class AwsAccount(Account):
    """A stack's account and region, used with the caller's login; without a session, the default profile."""

    def __init__(self, descriptor: Descriptor, session: boto3.Session | None = None) -> None:
        super().__init__()
        self._region, self._secret = descriptor.region, descriptor.secrets
        self.session = session or default_session()
        self.session.events.register("after-call", self._heard)
        self._lines = LogGroup(descriptor.log_group, self._region, self.session, self.now)

    def client(self, service: str) -> Any:
        """A client of a service in the stack's region."""
        return client(service, self._region, self.session)

    def _heard(self, http_response: Any, **_: Any) -> None:
        self.clock.heard(http_response.headers.get("Date"))

    def user(self) -> str:
        """The last part of the caller's ARN (a user's name, a role session's name), letters and digits only.

        Share identifiers are at most 255 alphanumeric characters.
        """
        with translated("sts:GetCallerIdentity"):
            arn = self.client("sts").get_caller_identity()["Arn"]
        return re.sub(r"[^A-Za-z0-9]", "", arn.rsplit("/", 1)[-1].rsplit(":", 1)[-1])[:255] or "unknown"

    def secrets(self) -> AwsSecrets | None:
        return AwsSecrets(self.client("secretsmanager"), self._secret) if self._secret else None

    def publish(self, topic: str, subject: str, text: str, fields: Mapping[str, str]) -> None:
        # The topic may be in another region than the queues.
        region = topic.split(":")[3]
        attributes = {key: {"DataType": "String", "StringValue": value} for key, value in fields.items()}
        with translated("sns:Publish"):
            client("sns", region, self.session).publish(
                TopicArn=topic, Subject=subject, Message=text, MessageAttributes=attributes
            )

    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        return self._lines.find(search)

    def search_logs(self, search: LogSearch) -> Iterator[LogLine]:
        return self._lines.search(search)

    def stream_lines(self, streams: Sequence[str], search: LogSearch) -> Iterator[LogLine]:
        return self._lines.of_streams(list(streams), search)


open_account = AwsAccount
