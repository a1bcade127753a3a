"""Changes to stacks, whose previews `tests/ops/make_previews.py` records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]

OPEN_BUCKET = """
import runpy
import pulumi_aws as aws
runpy.run_path("ordinary.py", run_name="__main__")
aws.s3.Bucket("scratch", tags={"tidemill:team": "vision", "tidemill:environment": "dev"})
"""
WAY_IN = """
import runpy
import pulumi_aws as aws
runpy.run_path("ordinary.py", run_name="__main__")
tags = {"tidemill:team": "vision", "tidemill:environment": "dev"}
group = aws.ec2.SecurityGroup("debug", description="Somebody wants a shell", tags=tags)
aws.vpc.SecurityGroupIngressRule("debug-ssh", security_group_id=group.id, cidr_ipv4="0.0.0.0/0", ip_protocol="tcp",
                                 from_port=22, to_port=22, tags=tags)
"""
BROKEN = """
raise ValueError("the program does not get far")
"""


@dataclass(frozen=True)
class Scenario:
    """A change to a running stack, or a stack that does not exist yet."""

    name: str
    change: Callable[[Config], None] | None = None
    program: str | None = None


@dataclass(frozen=True)
class Base:
    """A stack, the changes to its file before it is brought up, and the scenarios on it."""

    stack: str
    scenarios: tuple[Scenario, ...]
    first: Callable[[Config], None] | None = None
    up: bool = True


def queue(config: Config, name: str = "cpu") -> Config:
    """A queue of a stack file."""
    return config["tidemill:queues"][name]


def more_capacity(config: Config) -> None:
    """A larger rung, and a second one."""
    queue(config)["capacity"] = [{"market": "spot", "max_cpus": 512}, {"market": "on_demand", "max_cpus": 64}]


def placement(config: Config) -> None:
    """A value that cannot be set on an existing compute environment."""
    queue(config)["aws"] = {"placement_group": "spread"}


def placement_allowed(config: Config) -> None:
    """The same, and it is allowed."""
    placement(config)
    config["tidemill:allow"] = ["replace"]


def other_machines(config: Config) -> None:
    """Changes that replace machines in place."""
    queue(config)["machines"]["families"] = ["c7i", "m7i"]
    queue(config)["scratch_gib"] = 300


def wider_access(config: Config) -> None:
    """More data for jobs, and another submitter."""
    config["tidemill:data"]["write"] = ["s3://features/"]
    config["tidemill:access"] = {"submitters": ["arn:aws:iam::210987654321:role/partner"]}


def shorter(config: Config) -> None:
    """Everything is kept for a shorter time."""
    config["tidemill:store"] = {"expire_jobs_after_days": 30}
    config["tidemill:logs"] = {"retention_days": 3}


def purge(config: Config) -> None:
    """Nothing is protected."""
    config["tidemill:allow"] = ["purge"]


def waived(config: Config) -> None:
    """An open bucket, allowed for a while."""
    reason = "Vendor's drop box | until <b>2027</b>, ask @platform-team"
    config["tidemill:waivers"] = [
        {"rule": "aws-s3-bucket-closed", "resource": "scratch", "reason": reason, "until": "2027-01-31"}
    ]


def two_queues(config: Config) -> None:
    """A second queue, which a later change removes; and no data, as its buckets would have to exist on GCP."""
    if config.get("tidemill:cloud") == "gcp":
        del config["tidemill:data"]
    config["tidemill:queues"]["nightly"] = json.loads(json.dumps(queue(config)))


def without_nightly(config: Config) -> None:
    """The second queue is gone."""
    del config["tidemill:queues"]["nightly"]


def endpoints(config: Config) -> None:
    """No way to the internet."""
    config["tidemill:network"] = {"create": {"egress": "endpoints"}}


def public(config: Config) -> None:
    """A way to the internet."""
    config["tidemill:network"] = {"create": {"egress": "public"}}


def other_template(config: Config) -> None:
    """What machines start with."""
    queue(config)["scratch_gib"] = 300
    queue(config)["capacity"][0]["max_cpus"] = 320


BASES = (
    Base("vision-prod", (Scenario("first-up"),), up=False),
    Base(
        "vision-dev",
        (
            Scenario("no-change"),
            Scenario("more-capacity", more_capacity),
            Scenario("replace-refused", placement),
            Scenario("replace-allowed", placement_allowed),
            Scenario("other-machines", other_machines),
            Scenario("wider-access", wider_access),
            Scenario("kept-shorter", shorter),
            Scenario("purge", purge),
            Scenario("queue-removed", without_nightly),
            Scenario("violated", program=OPEN_BUCKET),
            Scenario("waived", waived, OPEN_BUCKET),
            Scenario("way-in", program=WAY_IN),
            Scenario("failed", program=BROKEN),
        ),
        two_queues,
    ),
    Base("vision-dev", (Scenario("egress-opened", public),), endpoints),
    Base(
        "vision-gcp-dev",
        (
            Scenario("gcp-other-template", other_template),
            Scenario("gcp-pool-removed", without_nightly),
            Scenario("gcp-purge", purge),
        ),
        two_queues,
    ),
)


def names() -> list[str]:
    """Every scenario."""
    return [scenario.name for base in BASES for scenario in base.scenarios]
