"""Messages to a topic with a machine's own login. No library of a cloud is needed for it."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tidemill.ending.message import Message
from tidemill.ending.pubsub import publish_body
from tidemill.ending.tries import TRY_SECONDS, passing, persist
from tidemill.worker.google_api import Api, ApiError, Token, endpoint_of

_CONTAINER = "http://169.254.170.2"
"""A task's own login: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html."""


class TaskLogin:
    """The login of the role of the container's job."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        # The container's proxy must not be used for the task's own login.
        self._local = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self) -> Mapping[str, str]:
        """Key, secret and token: of the task's role, else of the environment."""
        path, full = (self._env.get(f"AWS_CONTAINER_CREDENTIALS_{kind}_URI") for kind in ("RELATIVE", "FULL"))
        if not path and not full:
            names = {"AccessKeyId": "ACCESS_KEY_ID", "SecretAccessKey": "SECRET_ACCESS_KEY", "Token": "SESSION_TOKEN"}
            return {key: self._env.get(f"AWS_{name}", "") for key, name in names.items()}
        file = self._env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = Path(file).read_text() if file else self._env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        headers = {"Authorization": token.strip()} if token and full else {}
        request = urllib.request.Request(full or f"{_CONTAINER}{path}", headers=headers)
        with self._local.open(request, timeout=TRY_SECONDS) as answer:
            return json.loads(answer.read())


class Sns:
    """Topics of SNS, as the role of the container's job."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env, self._login = env, TaskLogin(env)

    def publish(self, topic: str, message: Message) -> None:
        """Send a message within bounds.

        Raises:
            UntoldError: SNS did not take it.
        """
        persist(lambda: self._attempt(topic, message))

    def _attempt(self, topic: str, message: Message) -> tuple[str, bool]:
        try:
            with urllib.request.urlopen(self._request(topic, message), timeout=TRY_SECONDS):
                return "", False
        except urllib.error.HTTPError as error:
            error.close()
            return f"SNS answers HTTP {error.code}", passing(error.code)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            return f"SNS does not answer ({type(error).__name__})", True

    def _request(self, topic: str, message: Message) -> urllib.request.Request:
        region, url = regional(topic, "sns", self._env.get("AWS_ENDPOINT_URL_SNS") or self._env.get("AWS_ENDPOINT_URL"))
        asked = {"Action": "Publish", "Version": "2010-03-31", "TopicArn": topic}
        asked |= {"Subject": message.subject, "Message": message.text}
        for number, (key, value) in enumerate(message.fields.items(), 1):
            entry = f"MessageAttributes.entry.{number}"
            asked |= {f"{entry}.Name": key, f"{entry}.Value.DataType": "String", f"{entry}.Value.StringValue": value}
        body = urlencode(asked).encode()
        return urllib.request.Request(url, body, signed(url, body, region, self._login(), datetime.now(UTC)))


def regional(arn: str, service: str, endpoint: str | None) -> tuple[str, str]:
    """The region of an ARN, and the URL of a service there, or of the `endpoint` in its place.

    Raises:
        ValueError: It is no ARN of the service. A submitter has written it: nothing is signed for another host.
    """
    if not (found := re.match(rf"arn:(aws[a-z-]*):{service}:([a-z0-9-]+):[0-9]{{12}}:", arn)):
        raise ValueError(f"it is no ARN of {service}")
    domain = "amazonaws.com.cn" if found[1] == "aws-cn" else "amazonaws.com"
    return found[2], f"{(endpoint or f'https://{service}.{found[2]}.{domain}').rstrip('/')}/"


_FORM = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


def signed(
    url: str,
    body: bytes,
    region: str,
    login: Mapping[str, str],
    now: datetime,
    *,
    service: str = "sns",
    headers: Mapping[str, str] = _FORM,
) -> dict[str, str]:
    """The headers of a request to a service of AWS, with its signature.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """
    stamp, scope = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}/{region}/{service}/aws4_request"
    headers = {**headers, "host": urlsplit(url).netloc, "x-amz-date": stamp}
    if login.get("Token"):
        headers["x-amz-security-token"] = login["Token"]
    names = ";".join(sorted(headers))
    canonical = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"POST\n/\n\n{canonical}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{login['SecretAccessKey']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    who = f"Credential={login['AccessKeyId']}/{scope}, SignedHeaders={names}, Signature={signature}"
    return headers | {"Authorization": f"AWS4-HMAC-SHA256 {who}"}


class PubSubTopics:
    """Topics of Pub/Sub, as the machine's account."""

    def __init__(self, token: Token | None, env: Mapping[str, str]) -> None:
        emulator = env.get("PUBSUB_EMULATOR_HOST")
        self._api = Api(f"http://{emulator}/", None) if emulator else Api(endpoint_of("pubsub", env), token)

    def publish(self, topic: str, message: Message) -> None:
        """Send a message within bounds.

        Raises:
            UntoldError: Pub/Sub did not take it.
        """
        body = publish_body(message.text, message.fields)

        def attempt() -> tuple[str, bool]:
            try:
                self._api.post(f"v1/{topic}:publish", body, TRY_SECONDS)
            except ApiError as error:
                if error.code is None:
                    return "Pub/Sub does not answer", True
                return f"Pub/Sub answers HTTP {error.code}", passing(error.code)
            return "", False

        persist(attempt)
