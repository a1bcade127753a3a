"""When templates are sent, as plain data: at times, or when files arrive."""

import re
from typing import Annotated, Literal

from pydantic import Field

from .model import Model
from .types import ALLOWED_DATA, DATA, Name, matching, unique

_VALUE = r"(\d{1,2}|[A-Za-z]{3})"
_FIELD = rf"(\*(/\d{{1,2}})?|{_VALUE}(-{_VALUE}(/\d{{1,2}})?)?)"
_CRON = re.compile(rf"{_FIELD}(,{_FIELD})*( {_FIELD}(,{_FIELD})*){{4}}")
"""What cron, EventBridge and Cloud Scheduler all know."""
_TEMPLATE = re.compile(r"[a-z][a-z0-9-]{0,40}(@[1-9][0-9]{0,8})?")
_ZONE = re.compile(r"UTC|[A-Za-z_]+(/[A-Za-z0-9_+-]+){1,2}")


class _Sent(Model):
    """A template that the sender sends."""

    template: Annotated[
        str, matching(_TEMPLATE, "a template's name, or its name and version such as nightly@3", 51)
    ] = Field(
        description="The template that is sent, by the name that its submitter gave it: its newest version, or "
        "`nightly@3` for one. It need not exist yet."
    )
    queues: Annotated[list[Name], unique] | None = Field(
        default=None,
        min_length=1,
        description="The queues that the template may use. Leave out for all queues of the stack.",
    )


class Schedule(_Sent):
    """A template and the times at which it is sent. AWS: nothing idle; GCP: about $0.10 per month idle each, the first
    three of a billing account are free.
    """

    cron: Annotated[
        str,
        matching(
            _CRON,
            "five fields with single spaces: minute, hour, day of the month, month, day of the week; each is *, a "
            "number, a name such as MON, a range 1-5, a step */15 or a list of them",
            100,
        ),
    ] = Field(
        description="The times in `timezone`, at least five minutes apart: `0 2 * * *` is every night at two.",
    )
    timezone: Annotated[str, matching(_ZONE, "UTC, or a time zone of the IANA database such as Europe/Berlin", 50)] = (
        Field(default="UTC", description="The time zone of `cron`. The zone's daylight saving time applies.")
    )
    overlap: Literal["skip", "wait", "allow"] = Field(
        default="skip",
        description="If the job of the time before has not ended: `skip` sends none, `wait` sends one that begins when "
        "it is complete, `allow` sends one that runs beside it.",
    )


class Arrival(_Sent):
    """A template and the place of the files that it is sent for. The first costs about $0.45 per month idle, GCP: about
    $0.70, most of which free tiers cover.
    """

    prefix: Annotated[str, matching(DATA, ALLOWED_DATA)] = Field(
        description="Where the files arrive: a bucket or a prefix of `data.read`. Their template gets their names. "
        "AWS: nothing arrives until the bucket's owner lets the bucket send notifications to Amazon EventBridge."
    )
    settle_minutes: int = Field(
        default=5, ge=1, le=1440, description="Minutes without a new file before the template is sent."
    )
    most_per_hour: int = Field(
        default=12, ge=1, le=60, description="The most jobs in an hour. Files that arrive meanwhile wait for the next."
    )
