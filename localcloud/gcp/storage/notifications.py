"""Notifications of a bucket: a message for each new generation of an object.

Source: https://cloud.google.com/storage/docs/pubsub-notifications
"""

from __future__ import annotations

import contextlib

from localcloud.gcp import seed
from localcloud.gcp.site import Site
from localcloud.gcp.storage.answers import iso
from localcloud.gcp.storage.objects import Stored
from localcloud.gcp.wire import RestError

AGENT = f"serviceAccount:{seed.agent('storage.googleapis.com')}"
FINALIZE = "OBJECT_FINALIZE"
FOLDER = "notificationConfigs"


def check(site: Site, topic: str) -> None:
    """Refuse a topic that Cloud Storage may not publish to.

    Raises:
        RestError: 403.
    """
    site.policy.check(AGENT, "pubsub.topics.publish", f"pubsub/{_short(topic)}")


def notify(site: Site, bucket: str, stored: Stored) -> None:
    """Publish a new generation to the topics of the bucket's notifications. A topic that refuses gets nothing."""
    for name, config in site.resources.list(f"storage/projects/_/buckets/{bucket}/{FOLDER}"):
        wanted = FINALIZE in config.get("event_types", [FINALIZE])
        if not wanted or not stored.name.startswith(config.get("object_name_prefix", "")):
            continue
        attributes = {
            **config.get("custom_attributes", {}),
            "notificationConfig": name.partition("/")[2],
            "eventType": FINALIZE,
            "payloadFormat": config["payload_format"],
            "bucketId": bucket,
            "objectId": stored.name,
            "objectGeneration": str(stored.generation),
            "eventTime": iso(stored.updated),
        }
        with contextlib.suppress(RestError):
            site.call(
                AGENT,
                "pubsub",
                "POST",
                f"v1/{_short(config['topic'])}:publish",
                {"messages": [{"attributes": attributes}]},
            )


def _short(topic: str) -> str:
    return topic.removeprefix("//pubsub.googleapis.com/")
