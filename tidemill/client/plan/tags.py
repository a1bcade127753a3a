"""Tags that a caller gives to a job: they appear in the cloud's cost reports."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidemill.client.site import Log
from tidemill.errors import CallerError

MAX_TAGS = 25
"""A job on AWS fails with more than 50, those of its definition included: 20 of the stack's own and some of ours.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitJob.html (propagateTags)
"""
# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
_TEXT = re.compile(r"[\w .:/=+@-]*")
_KEY = "1 to 128 letters, digits, spaces and any of _ . : / = + - @"
_VALUE = "at most 256 of the same"


def checked_tags(tags: Mapping[str, str], billed: bool, log: Log) -> dict[str, str]:
    """The tags, as a cloud gets them.

    Args:
        tags: As the caller gives them.
        billed: Whether cost reports have them.
        log: Takes a remark.

    Raises:
        CallerError: AWS would refuse one, or its name means something to the stack.
    """
    if tags and not billed:
        log("`tags` are kept with the job; only AWS has them in its cost reports.")
    if len(tags) > MAX_TAGS:
        raise CallerError.about("tags", len(tags), f"at most {MAX_TAGS}", "Leave some out.")
    for key, value in tags.items():
        if not isinstance(key, str) or not 1 <= len(key) <= 128 or not _TEXT.fullmatch(key):
            raise CallerError.about("tag", key, _KEY, "Rename it.")
        if key.lower().startswith(("aws:", "tidemill:")):
            raise CallerError.about("tag", key, "a name that does not begin with aws: or tidemill:", "Rename it.")
        if not isinstance(value, str) or len(value) > 256 or not _TEXT.fullmatch(value):
            raise CallerError.about(f"tags.{key}", value, _VALUE, "Shorten it.")
    return dict(tags)
