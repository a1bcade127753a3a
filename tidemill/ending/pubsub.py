"""The body of a publish request that tells people something. Clients and workers send the same one."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any


def publish_body(text: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """One message with a text for people and attributes for programs.

    Source: https://cloud.google.com/pubsub/docs/reference/rest/v1/PubsubMessage
    """
    return {"messages": [{"data": base64.b64encode(text.encode()).decode(), "attributes": dict(fields)}]}
