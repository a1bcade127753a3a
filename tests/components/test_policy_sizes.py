"""Policies of the largest stacks that a file may describe fit what IAM takes.

Each case grows one part of a stack with the longest names, to the most that the checks accept. Its policies are
measured with ARNs as long as in the region with the longest name. localcloud refuses the same sizes; what this cannot
prove is that an account's quotas are the defaults. ARNs of GovCloud and China are up to seven characters longer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from components.config import ConfigError, parse
from localcloud.aws.mended import quotas
from tests.components.recording import ACCOUNT, Recorder
from tests.components.stacks import IMAGE, run_program
from tests.components.test_longest_names import stack
from tests.components.test_shared import ON_AWS, STACK

PREFIX = f"arn:aws:{{}}:ap-southeast-2:{ACCOUNT}:"
ARNS = {
    "JobQueue": PREFIX.format("batch") + "job-queue/",
    "JobDefinition": PREFIX.format("batch") + "job-definition/",
    "LogGroup": PREFIX.format("logs") + "log-group:",
    "Bucket": "arn:aws:s3:::",
    "FirehoseDeliveryStream": PREFIX.format("firehose") + "deliverystream/",
    "FileSystem": PREFIX.format("elasticfilesystem") + "file-system/",
    "AccessPoint": PREFIX.format("elasticfilesystem") + "access-point/",
    "Queue": PREFIX.format("sqs"),
    "Function": PREFIX.format("lambda") + "function:",
    "Role": f"arn:aws:iam::{ACCOUNT}:role/",
    "Topic": PREFIX.format("sns"),
    "Key": PREFIX.format("kms") + "key/",
}
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
PARAMETER = PREFIX.format("ssm") + "parameter/"
LONG = "n" * 29
SHARED = "arn:aws:ecr:us-west-2:123456789012:repository/shared-prod/"


def real(text: str) -> str:
    """A document with ARNs as long as a cloud's. Only imported repositories are named, which keep their names."""
    text = re.sub(r"arn:mock:Repository:[\w-]+-(\w+)", rf"{PREFIX.format('ecr')}repository/\1", text)
    for kind, prefix in ARNS.items():
        text = re.sub(rf"arn:mock:{kind}:([\w-]+)", lambda found, prefix=prefix: f"{prefix}{found[1]}-1a2b3c4", text)
    assert "arn:mock" not in text, text
    return text.replace("us-west-2", "ap-southeast-2")


def sizes(made: Recorder) -> dict[str, int]:
    """Characters of the largest managed, inline and trust policies."""
    inline: dict[str, int] = defaultdict(int)
    for each in made.of("iam.RolePolicy"):
        inline[each.inputs["role"]] += len("".join(real(each.inputs["policy"]).split()))
    managed = [len("".join(real(each.inputs["policy"]).split())) for each in made.of("iam.Policy")] or [0]
    trust = [len(real(each.inputs["assumeRolePolicy"])) for each in made.of("iam.Role")]
    return {"managed": max(managed), "inline": max(inline.values()), "trust": max(trust)}


def images(number: int, where: str) -> dict[str, Any]:
    """Queues whose images are in so many repositories of a registry."""
    found: dict[str, Any] = {}
    for each in range(number):
        queue = found.setdefault(f"{each // 19:03}".rjust(32, "q"), {"images": {"default": IMAGE}})
        queue["images"][f"i{each:03}".ljust(32, "i")] = f"{where}://r{each:03}{LONG[1:]}:1"
    return {"queues": found}


def topics(number: int) -> dict[str, str]:
    return {f"t{each}": f"arn:aws:sns:ap-southeast-2:{ACCOUNT}:{each}".ljust(250, "t") for each in range(number)}


def queue(**keys: Any) -> dict[str, Any]:
    return {"queues": {"q" * 32: {"images": {"default": IMAGE}, **keys}}}


GROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "repositories": lambda n: {"registry": {"repositories": [f"r{each:03}{LONG[1:]}" for each in range(n)]}},
    "images": lambda n: images(n, "registry"),
    "shared images": lambda n: {**images(n, "shared"), "registry": {"shared": STACK}},
    "imported repositories": lambda n: {
        **images(n, "registry"),
        "imports": {"repositories": {f"r{each:03}{LONG[1:]}": f"{each}".rjust(200, "r") for each in range(n)}},
    },
    "topics": lambda n: {"monitoring": {"job_channels": topics(n)}},
    "topics and images": lambda n: {"monitoring": {"job_channels": topics(5)}, **images(n, "registry")},
    "images within a boundary": lambda n: {**images(n, "registry"), "permission_boundary": BOUNDARY},
    "shared images within a boundary": lambda n: {
        **images(n, "shared"),
        "registry": {"shared": STACK},
        "monitoring": {"job_channels": topics(5)},
        "permission_boundary": BOUNDARY,
    },
    "submitters": lambda n: {
        "access": {"submitters": [f"arn:aws:iam::{ACCOUNT}:role/{each}".ljust(95, "r") for each in range(n)]}
    },
    "prefixes and topics": lambda n: {
        "monitoring": {"job_channels": topics(5)},
        "data": {"write": [f"s3://{'b' * 40}/{each}".ljust(70, "p") + "/" for each in range(n)]},
    },
    "keys": lambda n: {
        "data": {
            "read": ["s3://bucket/"],
            "kms_keys": [f"arn:aws:kms:ap-southeast-2:{ACCOUNT}:key/{each:036}" for each in range(n)],
        }
    },
    "sender": lambda n: {**images(n, "registry"), "sends": True, "monitoring": {"job_channels": topics(5)}},
    "secrets": lambda n: queue(secrets={f"S{each}": f"{PARAMETER}{each}".ljust(120, "s") for each in range(n)}),
}


def config(grown: dict[str, Any]) -> dict[str, Any]:
    own = {key.removeprefix("tidemill:"): value for key, value in stack("aws").items() if key.startswith("tidemill:")}
    for each in own["queues"].values():
        del each["mounts"]
    sending = {key: own.pop(key) for key in ("schedules", "arrivals", "data", "worker_image")}
    if grown.pop("sends", False):
        own |= sending
    return {**own, "access": {**own["access"], "advise": True}, **grown}


def refusal(grown: dict[str, Any]) -> str | None:
    try:
        parse(config(grown))
    except ConfigError as error:
        return str(error)
    return None


def most(grow: Callable[[int], dict[str, Any]]) -> int:
    """How large a part may be: by bisection, since a file that is too large stays so when it grows."""
    low, high = 1, 512
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if refusal(grow(middle)) else (middle, high)
    return low


def run(grown: dict[str, Any]) -> Recorder:
    values = {f"tidemill:{key}": value for key, value in config(grown).items()} | {"aws:region": "us-west-2"}
    repositories = {f"r{each:03}{LONG[1:]}": f"{SHARED}r{each:03}{LONG[1:]}" for each in range(200)}
    return run_program(values, recorder=Recorder(stacks={STACK: {"shared": {**ON_AWS, "repositories": repositories}}}))


@pytest.mark.parametrize("part", GROWS)
def test_the_largest_file_fits_iam(part: str) -> None:
    grow = GROWS[part]
    found = sizes(run(grow(most(grow))))
    assert found["managed"] <= quotas.MANAGED_CHARACTERS
    assert found["inline"] <= quotas.INLINE_CHARACTERS
    assert found["trust"] <= quotas.TRUST_CHARACTERS


QUEUES = "tidemill:queues: 109 queues and images, for which submitters need 7 policies,"
SUBMITTERS = (
    "is not allowed. Allowed: 6 policies, each with up to 24 of them and 6144 characters. Make a second stack, or "
    "shorten names; IAM limits the length and number of a role's policies."
)
BOUNDED = (
    "characters with all that submitters may, is not allowed. Allowed: 40 or less with a permission_boundary, and "
    "10240 characters. Make a second stack; the submitter role names each of them and IAM limits what a role holds."
)
REPOSITORIES = (
    "is not allowed. Allowed: what IAM takes for a submitter's policy, 6144 characters. Use fewer repositories, or "
    "make a second stack."
)
INLINE = (
    "characters of names in all is not allowed. Allowed: what IAM takes for a role, about 8740 characters. Name "
    "prefixes or buckets that hold more, share secrets and images, or make a second stack."
)
SENDER = (
    "characters in all, is not allowed. Allowed: what IAM takes for the sender's role, 10240 characters. Name the few "
    "`queues` that each schedule and arrival sends to, or prefixes that hold more."
)
TRUST = (
    "is not allowed. Allowed: what IAM takes for a role's trust, 2048 characters. Name one role that people assume, or "
    "the account's root, whose own IAM policies then decide."
)


@pytest.mark.parametrize(
    ("part", "start", "end"),
    [
        ("images", QUEUES, SUBMITTERS),
        ("topics and images", QUEUES, SUBMITTERS),
        ("images within a boundary", "tidemill:queues: 37 queues and images, which take 10336", BOUNDED),
        ("shared images within a boundary", "tidemill:queues: 19 queues and images, which take 10275", BOUNDED),
        (
            "shared images",
            "tidemill:registry: 55 shared and imported repositories and 0 topics with 6220 characters in all",
            REPOSITORIES,
        ),
        (
            "imported repositories",
            "tidemill:registry: 22 shared and imported repositories and 0 topics with 6220 characters in all",
            REPOSITORIES,
        ),
        ("submitters", "tidemill:access.submitters: 20 principals with 2130 characters in all", TRUST),
        ("prefixes and topics", "tidemill:data: 65 buckets and prefixes and 5 topics with 8840", INLINE),
        ("keys", "tidemill:data: 1 buckets and prefixes and 0 topics with 8793", INLINE),
        (
            "sender",
            "tidemill:schedules: 39 queues and images, 1 buckets and prefixes and 5 topics, with 10390",
            SENDER,
        ),
        ("secrets", "tidemill:queues: 35 secrets and 0 repositories with 8855", INLINE),
    ],
)
def test_one_more_is_refused_in_one_line(part: str, start: str, end: str) -> None:
    grow = GROWS[part]
    assert refusal(grow(most(grow) + 1)) == f"{start} {end}"
