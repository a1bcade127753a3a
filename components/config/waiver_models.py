"""A waiver: a rule of the policy pack that a stack may violate, why, and until when."""

import datetime
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from .model import Model
from .types import matching

RULE = re.compile(r"(any|aws|gcp)(-[a-z0-9]+){3,}")
"""Names of the pack's rules: ``<cloud>-<service>-<resource>-<rule>``."""
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})( 00:00:00 \+0000 UTC)?")
# The engine reads an unquoted day of a stack file as a time and passes it in Go's format.


def _day(value: Any) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    match = _DAY.fullmatch(value) if isinstance(value, str) else None
    try:
        return datetime.date.fromisoformat(match[1] if match else "")
    except ValueError:
        raise ValueError("a day such as 2027-01-31") from None


class Waiver(Model):
    """A rule of the policy pack that this stack, or one of its resources, may temporarily violate."""

    rule: Annotated[str, matching(RULE, "the name of a rule, such as aws-s3-bucket-closed", 100)] = Field(
        description="The rule's name, as a violation shows it; docs/policies.md lists them."
    )
    resource: Annotated[str, matching(re.compile(r"\S(.*\S)?"), "the logical name of a resource", 300)] | None = Field(
        default=None,
        description="Logical name of the one resource that may violate it, the end of its URN. Leave out for all.",
    )
    reason: Annotated[str, matching(re.compile(r"\S.{8,}\S"), "a sentence of 10 to 500 characters", 500)] = Field(
        description="Why, for readers of the review."
    )
    until: Annotated[datetime.date, BeforeValidator(_day, json_schema_input_type=datetime.date)] = Field(
        description="Last day of the waiver, in UTC, such as 2027-01-31, at most a year from now. After it the rule "
        "holds again, and the waiver is an error until it is removed.",
    )
