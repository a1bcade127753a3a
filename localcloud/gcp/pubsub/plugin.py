"""Pub/Sub in the daemon: the generic server keeps declared resources, the process keeps the messages."""

from __future__ import annotations

import json
from typing import Any

from localcloud.gcp.pubsub import PubSub
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError

MESSAGES = {"publish", "acknowledge", "modifyAckDeadline"}
PULL_SECONDS, LEAST_SECONDS = 10.0, 0.5
"""How long a pull waits for a message on the cloud's clock, and the minimum on the real clock."""
CHANGES = {"create", "patch", "delete"}
KINDS = {"topics", "subscriptions"}


class PubSubPlugin(Plugin):
    """Forwards permitted calls."""

    apis = ("pubsub",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.process = PubSub(site.clock)
        self._wait = max(PULL_SECONDS / site.clock.factor, LEAST_SECONDS)
        self.controls = {"pubsub": lambda wanted: self.process.control(**wanted)}
        self._agent = f"serviceAccount:service-{site.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

    def health(self) -> dict[str, Any]:
        """The ports of the process."""
        return {"pubsub": {"rest": self.process.rest, "grpc": self.process.grpc}}

    def stop(self) -> None:
        self.process.stop()

    def backlog(self) -> dict[str, dict[str, float]]:
        """`unacked` messages and `oldest_unacked_seconds` of each subscription, now."""
        return self.process.control()["subscriptions"]

    def handle(self, request: Request) -> Response | None:
        """Forward messages to the process. Topics and subscriptions are created there first, so that it can refuse."""
        verb = request.call.method.verb
        kind = request.call.id.split(".")[-2]
        if verb == "pull":
            return self._pull(request)
        if verb in MESSAGES:
            return self._forward(request, {})
        if verb not in CHANGES or kind not in KINDS:
            return None
        if kind == "subscriptions" and verb == "create":
            topic = f"pubsub/{request.json().get('topic', '')}"
            self._site.policy.check(request.principal, "pubsub.topics.attachSubscription", topic)
        answer = self._forward(request, {})
        stored = self._site.default(request)
        if verb == "delete":
            return stored
        name = self._site.full_name("pubsub", request.call.name)
        return Response.of(self._site.resources.change(name, lambda value: value.update(answer.json())))

    def _pull(self, request: Request) -> Response:
        """Wait for a message even after the client leaves, as Google's own emulator does: a message that the
        client does not take is leased anyway."""
        headers = {"X-Pull-Wait": f"{self._wait}s"}
        if not self._may_forward(request):
            headers["X-Keep-Dead-Letters"] = "yes"
        return self._forward(request, headers)

    def _forward(self, request: Request, headers: dict[str, str]) -> Response:
        status, body = self.process.call(request.method, request.path, request.body, headers)
        if status >= 400:
            error = json.loads(body)["error"]
            raise RestError(status, error["message"], error["status"])
        return Response(status, body, {"Content-Type": "application/json; charset=UTF-8"})

    def _may_forward(self, request: Request) -> bool:
        """Whether the service agent may take a dead letter from the subscription and publish it to its topic."""
        name = self._site.full_name("pubsub", request.call.name)
        declared = (self._site.resources.get(name) or {}).get("deadLetterPolicy")
        if not declared:
            return True
        allows, topic = self._site.policy.allows, f"pubsub/{declared['deadLetterTopic']}"
        return allows(self._agent, "pubsub.topics.publish", topic) and allows(
            self._agent, "pubsub.subscriptions.consume", name
        )
