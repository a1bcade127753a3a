"""Lines of a log group as the worker wrote them."""

from __future__ import annotations

import json

from tidemill.clouds.account import LogLine


def line_of(at: float, message: str, stream: str, id_: str) -> LogLine:
    """A line with the fields that the worker wrote."""
    try:
        fields = json.loads(message)
    except ValueError:
        fields = {}
    return LogLine(at, message, stream, fields if isinstance(fields, dict) else {}, id_)
