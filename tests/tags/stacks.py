"""The largest stack of each cloud: every part of a stack file that makes a resource, in several forms of it."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.components.recording import Made, Recorder
from tests.components.stacks import run_program
from tests.components.test_longest_names import FILES, stack

TAGS = {"aws": {"CostCenter": "4711", "Owner": "vision@example.com"}, "gcp": {"cost-center": "4711"}}
OURS = {"aws": {"tidemill:team", "tidemill:environment"}, "gcp": {"tidemill-team", "tidemill-environment"}}
PLACES = {"aws": {"aws:region": "us-west-2"}, "gcp": {"gcp:project": "vision-project", "gcp:region": "us-central1"}}
_NETWORKS = {"aws": ("public", "nat", "endpoints"), "gcp": ("public", "nat")}
# What a stack has in one of several forms.
_ALSO: dict[str, dict[str, Any]] = {
    "aws": {
        "tidemill:store": {"kms_key": "create", "versioning": True},
        "tidemill:file_systems": {FILES["aws"]: {"backup": True}},
    },
    "gcp": {"tidemill:logs": {"kms_key": "create", "archive": "bigquery"}},
}


def settings(cloud: str, **more: Any) -> dict[str, Any]:
    """A stack file's config; `more` are `tidemill:` keys."""
    return {**stack(cloud), **PLACES[cloud], **{f"tidemill:{key}": value for key, value in more.items()}}


def run(cloud: str, **more: Any) -> Recorder:
    return run_program(settings(cloud, **more))


@cache
def largest(cloud: str) -> tuple[Made, ...]:
    """The resources of all forms of a cloud's largest stack, each with `TAGS`."""
    made: list[Made] = []
    for egress in _NETWORKS[cloud]:
        values = settings(cloud, tags=TAGS[cloud], network={"create": {"egress": egress}})
        made += run_program(values).resources
    made += run_program(settings(cloud, tags=TAGS[cloud]) | _ALSO[cloud]).resources
    return tuple(each for each in made if each.type.startswith(f"{cloud}:"))
