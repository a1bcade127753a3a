"""An event's answer or its failure, for the log and for the scheduler."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from tidemill.errors import TidemillError

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def answered(answer: Answer, event: Mapping[str, Any]) -> tuple[bool, bytes]:
    """Answer an event, and print the answer.

    Returns:
        True and the answer as JSON; False and the failure as JSON, after which the scheduler tries again.
    """
    try:
        content = json.dumps(answer(event))
        print(content, flush=True)
        return True, content.encode()
    except Exception as error:
        if isinstance(error, TidemillError):
            print(f"error: {error}", file=sys.stderr, flush=True)
        else:
            traceback.print_exc()
        return False, json.dumps({"errorMessage": str(error), "errorType": type(error).__name__}).encode()
