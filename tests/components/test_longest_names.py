"""Every name that is made from a stack file's, at the longest that a file may hold.

The provider of localcloud checks what each resource of the program asks for, with its automatic name; the limits are in
localcloud/*/provider/types. What this cannot prove: that the clouds take names of that length.
"""

from __future__ import annotations

from typing import Any

import pytest

from components.config import ConfigError, parse
from localcloud.aws.provider.table import AWS
from localcloud.gcp.provider.kind import GCP
from localcloud.provider import plan
from localcloud.provider.convert import RefusedError
from tests.components.recording import Made, Recorder
from tests.components.stacks import IMAGE, run_program

LONG = "n" * 32
TEAM = {"aws": ("t" * 32, "env"), "gcp": ("t" * 22, "env")}
QUEUE = {"aws": "q" * 32, "gcp": "q" * 13}
FILES = {"aws": "f" * 10, "gcp": "f" * 19}
NAMES = {"accountId", "bucket", "creationToken", "dashboardName", "datasetId", "name", "repositoryId", "roleId"}
ARN = "arn:aws:resource-groups:us-west-2:123456789012:group/reserved"


def stack(cloud: str) -> dict[str, Any]:
    """A stack file with every part that makes something, and the longest names in it."""
    team, environment = TEAM[cloud]
    rungs: list[dict[str, Any]] = [{"market": "on_demand", "max_cpus": 64}, {"market": "spot", "max_cpus": 64}]
    queue: dict[str, Any] = {"images": {"default": IMAGE}, "item": {"cpus": 2}, "capacity": rungs}
    queue["mounts"] = {LONG: {"path": "/files", "file_system": FILES[cloud]}}
    config = {
        "team": team,
        "environment": environment,
        "cloud": cloud,
        "queues": {QUEUE[cloud]: queue},
        "file_systems": {FILES[cloud]: {} if cloud == "aws" else {"tier": "basic_hdd", "zone": "a"}},
        "store": {"kms_key": "create"},
        "logs": {"kms_key": "create", "archive": "bucket"},
        "monitoring": {"notify": ["a@example.com"], "dashboard": True, "queries": True},
        "budget": {"monthly_usd": 100, "notify": ["a@example.com"]},
        "access": {"advise": True},
    }
    if cloud == "aws":
        rungs[0] |= {"name": LONG, "reservation": ARN}
        queue["images"][LONG] = IMAGE
        config["registry"] = {"repositories": [LONG]}
        queue["aws"] = {"placement_group": "cluster"}
        queue["machines"] = {"families": ["c7i"]}
        config["monitoring"]["stalled_minutes"] = 60
        config["access"]["submitters"] = ["arn:aws:iam::123456789012:role/ml"]
        config["worker_image"] = f"registry://tidemill-worker@sha256:{64 * '0'}"
        config["data"] = {"read": ["s3://incoming"]}
        config["schedules"] = {LONG: {"template": LONG, "cron": "0 2 * * *"}}
        config["arrivals"] = {LONG: {"template": LONG, "prefix": "s3://incoming/"}}
    else:
        rungs.reverse()
        config["access"]["submitters"] = ["user:a@example.com"]
        config["budget"]["billing_account"] = "012345-6789AB-CDEF01"
    return {f"tidemill:{key}": value for key, value in config.items()} | {"aws:region": "us-west-2"}


@pytest.fixture(scope="module", params=TEAM)
def made(request: pytest.FixtureRequest) -> Recorder:
    region = {"gcp:project": "vision-project", "gcp:region": "us-central1"} if request.param == "gcp" else {}
    return run_program(stack(request.param) | region)


def row(each: Made) -> Any:
    return (AWS if each.type.startswith("aws:") else GCP).row(each.type)


def test_the_provider_takes_every_name(made: Recorder) -> None:
    refused, named = [], 0
    for each in made.resources:
        if each.type.startswith(("aws:", "gcp:")):
            named += bool(row(each).autoname)
            try:
                plan.check(row(each), each.name, {}, each.inputs, b"seed")
            except RefusedError as error:  # of other inputs too: ids of the mocks are not the clouds'
                refused += [f"{each.type} {each.name}: {error}"] if error.path in NAMES else []
    assert refused == []
    assert named > 20


def said(key: str, value: str, allowed: str, fix: str) -> str:
    """What a person reads."""
    return f'tidemill:{key}: "{value}" is not allowed. Allowed: {allowed}. {fix}.'


@pytest.mark.parametrize(
    ("cloud", "longer", "line"),
    [
        (
            "aws",
            {"environment": "envi"},
            said(
                "team",
                32 * "t",
                "team and environment with at most 35 characters together; these have 36",
                "Shorten one of them; AWS limits the names of roles and buckets that are made from them",
            ),
        ),
        (
            "aws",
            {"file_systems": {"f" * 11: {}}},
            said(
                "file_systems." + 11 * "f",
                11 * "f",
                "team, environment and file system with at most 45 characters together; these have 46",
                "Shorten one of them; EFS limits the token that is made from them",
            ),
        ),
        (
            "gcp",
            {"environment": "envi"},
            said(
                "team",
                22 * "t",
                "team and environment with at most 25 characters together; these have 26",
                "Shorten one of them; Cloud Run limits the name of the reconciler's service that is made from them",
            ),
        ),
        (
            "gcp",
            {"file_systems": {"f" * 20: {"tier": "regional"}}},
            said(
                "file_systems." + 20 * "f",
                20 * "f",
                "team, environment and file system with at most 44 characters together; these have 45",
                "Shorten one of them; Filestore limits the name of the instance that is made from them",
            ),
        ),
        (
            "gcp",
            {"queues": {"q" * 14: {"images": {"default": IMAGE}}}},
            said(
                "queues." + 14 * "q",
                14 * "q",
                "team, environment and queue with at most 38 characters together; these have 39",
                "Shorten one of them; Compute Engine limits the names that are made from them",
            ),
        ),
    ],
)
def test_one_character_more_is_refused(cloud: str, longer: dict[str, Any], line: str) -> None:
    own = {key.removeprefix("tidemill:"): value for key, value in stack(cloud).items() if key.startswith("tidemill:")}
    for queue in own["queues"].values():
        del queue["mounts"]
    with pytest.raises(ConfigError) as caught:
        parse(own | longer)
    assert str(caught.value) == line
