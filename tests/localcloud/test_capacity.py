"""The live sources against localcloud's answers: botocore's models, Compute's beta discovery document, and permissions.

It proves what is asked, with which permission, and that answers of the documented shapes are understood. It cannot
prove that a score, a price or a rate is right, nor that the clouds answer exactly so.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from google.oauth2.credentials import Credentials

from localcloud.aws import accounts, capacity
from localcloud.aws.gateway import Gateway
from localcloud.aws.mended import gaps  # noqa: F401
from localcloud.aws.wsgi import serve_socket
from localcloud.gcp import discovery, schema
from tests.localcloud.gcp.running import BASE, RunningGcp
from tidemill.advice.cache import Cache
from tidemill.advice.sources import ApiOffError, NoAnswerError, NoPermissionError, Question, ThrottledError
from tidemill.clouds.aws.advice import AwsSource
from tidemill.clouds.gcp.advice import GcpSource
from tidemill.clouds.gcp.session import GoogleSession

REGION = "us-west-2"
GRANT = [
    {
        "Effect": "Allow",
        "Action": "ec2:GetSpotPlacementScores",
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:RequestedRegion": REGION}},
    },
    {
        "Effect": "Allow",
        "Action": [
            "ec2:DescribeAvailabilityZones",
            "ec2:DescribeInstanceTypeOfferings",
            "ec2:DescribeSpotPriceHistory",
        ],
        "Resource": "*",
    },
    {"Effect": "Allow", "Action": "servicequotas:GetServiceQuota", "Resource": "*"},
]
TYPES = ("c6i.large", "c6i.xlarge", "m6i.large", "m6i.xlarge")
QUESTION = Question((REGION, "us-east-1"), TYPES, 64)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        served = serve_socket(listening, Gateway({}, {}, {}, {}))
    yield served.port
    served.close()


@pytest.fixture
def aws(port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes a source with the rights of some statements."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")

    def source(statements: list[dict[str, Any]] = GRANT, region: str = REGION, cache: str = "cache") -> AwsSource:
        trust = {"Effect": "Allow", "Principal": {"Service": "x"}, "Action": "sts:AssumeRole"}
        policies = [{"Version": "2012-10-17", "Statement": each} for each in ([trust], statements)]
        name = f"asks-{tmp_path.name}-{cache}"
        iam = accounts.service_client("iam", REGION)
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(policies[0]))["Role"]["Arn"]
        iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=json.dumps(policies[1]))
        key = accounts.role_credentials(arn, "session", "x")
        session = boto3.Session(key["AccessKeyId"], key["SecretAccessKey"], key["Token"])
        return AwsSource(region, accounts.ACCOUNT, session, cache=Cache(tmp_path / cache))

    return source


def test_aws_answers_with_the_grant(aws: Any):
    answer = aws().ask(QUESTION)
    assert answer.gaps == ()
    assert {each.region for each in answer.scores} == {*QUESTION.regions}
    assert all(1 <= each.value <= 10 and each.zone is None for each in answer.scores)
    assert {each.type for each in answer.prices} == {*TYPES}
    for price in answer.prices:
        assert price.quarter.low <= price.week.low <= price.value <= price.week.high <= price.quarter.high
        assert (price.week.days, price.quarter.days > 88) == (7, True)
        assert price.zone_id.startswith(("usw2-az", "use1-az"))
    assert {(each.kind, each.value) for each in answer.quotas} == {("standard", 640)}


def test_aws_scores_zones_by_their_ids(aws: Any):
    answer = aws().ask(Question((REGION,), TYPES, 64, one_zone=True))
    assert {(each.zone, each.zone_id) for each in answer.scores} == {
        ("us-west-2a", "usw2-az2"),
        ("us-west-2b", "usw2-az1"),
        ("us-west-2c", "usw2-az3"),
        ("us-west-2d", "usw2-az4"),
    }


def test_aws_scores_few_types_low(aws: Any):
    low = aws().ask(Question((REGION,), TYPES[:2], 2)).scores
    assert all(each.value < 4 for each in low)


def test_aws_says_where_a_type_is_sold_that_the_tables_lack(aws: Any):
    """Moto's record has types that the package leaves out."""
    answer = aws().ask(Question((REGION,), ("c5.metal", "x9.huge"), 2))
    sold = {each.zone_id for each in answer.offered if each.type == "c5.metal"}
    assert sold >= {"usw2-az1", "usw2-az2"}
    assert [(each.value, each.zone) for each in answer.offered if each.type == "x9.huge"] == [(False, None)]


def test_aws_refuses_without_the_grant(aws: Any):
    answer = aws([GRANT[2]]).ask(QUESTION)
    assert answer.scores == answer.prices == ()
    assert len(answer.quotas) == 2
    assert {(gap.error.what, type(gap.error)) for gap in answer.gaps} == {
        ("ec2:GetSpotPlacementScores", NoPermissionError),
        ("ec2:DescribeSpotPriceHistory", NoPermissionError),
    }
    assert all("advise: true" in str(gap) for gap in answer.gaps)


def test_aws_is_asked_for_scores_where_the_grant_allows_it(aws: Any):
    assert aws(region=REGION).ask(Question(("us-east-1",), TYPES, 64)).scores
    elsewhere = aws(region="eu-west-1", cache="elsewhere").ask(Question(("us-east-1",), TYPES, 64))
    assert [gap.error.what for gap in elsewhere.gaps] == ["ec2:GetSpotPlacementScores"]
    assert elsewhere.prices


def test_aws_takes_a_repeated_question_when_the_days_are_used_up(aws: Any, monkeypatch: pytest.MonkeyPatch):
    """Sorted and normalised, it is the same configuration to AWS."""
    region = "eu-central-1"  # the questions of a region are counted in its backend
    monkeypatch.setattr(capacity, "CONFIGURATIONS", 1)
    grant = [{**GRANT[0], "Condition": {}}, *GRANT[1:]]
    ask = aws(grant, region, "first").ask
    again = aws(grant, region, "second").ask
    assert ask(Question((region, REGION), TYPES, 8)).scores
    assert again(Question((REGION, region), TYPES[::-1], 8)).scores
    other = again(Question((region,), TYPES, 16))
    assert [(gap.error.code, type(gap.error)) for gap in other.gaps] == [("MaxConfigLimitExceeded", ThrottledError)]


def test_aws_throttles(aws: Any):
    capacity.faults.control({"match": "DescribeSpotPriceHistory", "answer": "RequestLimitExceeded", "times": 1000})
    try:
        answer = aws().ask(QUESTION)
    finally:
        capacity.faults.control({"clear": True})
    assert {(gap.source, type(gap.error)) for gap in answer.gaps} == {("ec2:DescribeSpotPriceHistory", ThrottledError)}
    assert answer.scores


def test_a_network_that_is_cut_leaves_what_was_known(aws: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    told = aws().ask(QUESTION)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    later = Cache(tmp_path / "cache", lambda: told.scores[0].at.timestamp() + 7200)
    session = boto3.Session("key", "secret")
    answer = AwsSource(REGION, accounts.ACCOUNT, session, cache=later).ask(QUESTION)
    assert answer.scores == told.scores
    assert {each.value for each in answer.prices} == {each.value for each in told.prices}
    assert {type(gap.error) for gap in answer.gaps} == {NoAnswerError}
    assert all(gap.at for gap in answer.gaps)


# ---- GCP --------------------------------------------------------------------------------------------------------

GCP_TYPES = ("n2-standard-8", "n2d-standard-8", "c3-standard-8")
GCP_QUESTION = Question(("us-central1", "europe-west1"), GCP_TYPES, 64)
ROLE = "projects/{}/roles/asks"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGcp]:
    with RunningGcp(tmp_path_factory.mktemp("gcp")) as running:
        role = ROLE.format(running.site.project)
        running.site.resources.put(f"iam/{role}", {"includedPermissions": []})
        bindings = [{"role": role, "members": ["user:ann@example.com"]}]
        running.site.resources.set_policy(f"cloudresourcemanager/{BASE}", {"bindings": bindings, "etag": "a"})
        yield running


@pytest.fixture
def gcp(daemon: RunningGcp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes a source with some permissions."""
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", f"http://127.0.0.1:{daemon.port}/compute/")

    def source(*permissions: str) -> GcpSource:
        daemon.site.resources.put(f"iam/{ROLE.format(daemon.site.project)}", {"includedPermissions": [*permissions]})
        token = daemon.site.tokens.issue("user:ann@example.com")["access_token"]
        session = GoogleSession(daemon.site.project, Credentials(token))
        return GcpSource(daemon.site.project, session, cache=Cache(tmp_path))

    return source


BOTH = ("compute.advice.capacity", "compute.advice.capacityHistory")


def test_gcp_answers_with_the_grant(gcp: Any):
    answer = gcp(*BOTH).ask(GCP_QUESTION)
    assert answer.gaps == ()
    assert {each.region for each in answer.capacity} == {*GCP_QUESTION.regions}
    for advice in answer.capacity:
        assert 0 < advice.value <= 1
        assert advice.uptime in (60, 600, 3600)
        assert sum(each.machines for each in advice.placed) == advice.machines == 8
        assert all(each.zone.startswith(advice.region) for each in advice.placed)
    assert {(each.region, each.type) for each in answer.prices} == {
        (region, kind) for region in GCP_QUESTION.regions for kind in GCP_TYPES
    }
    for price in answer.prices:
        assert price.quarter.low <= price.value <= price.quarter.high
        assert (price.week.days, price.quarter.days) == (7, 90)
    assert all(0 <= each.value < 0.3 and each.days == 30 for each in answer.reclaims)


@pytest.mark.parametrize("granted", BOTH)
def test_gcp_refuses_what_is_not_granted(gcp: Any, granted: str):
    answer = gcp(granted).ask(GCP_QUESTION)
    (gap,) = answer.gaps
    assert gap.error.what in {*BOTH} - {granted}
    assert isinstance(gap.error, NoPermissionError)
    assert "advise: true" in str(gap)
    assert bool(answer.capacity) == (granted == BOTH[0])
    assert bool(answer.prices) == bool(answer.reclaims) == (granted == BOTH[1])


def test_gcp_names_the_command_that_enables_the_api(daemon: RunningGcp, gcp: Any):
    name = f"serviceusage/projects/{daemon.site.project}/services/compute.googleapis.com"
    known = daemon.site.resources.get(name)
    daemon.site.resources.put(name, {**known, "state": "DISABLED"})  # type: ignore[dict-item]
    try:
        answer = gcp(*BOTH).ask(GCP_QUESTION)
    finally:
        daemon.site.resources.put(name, known)  # type: ignore[arg-type]
    assert {type(gap.error) for gap in answer.gaps} == {ApiOffError}
    assert all(gap.error.command.startswith("gcloud services enable compute.googleapis.com") for gap in answer.gaps)


def test_gcp_throttles(daemon: RunningGcp, gcp: Any):
    faults = daemon.controls["advice/faults"]
    faults({"match": "capacityHistory", "answer": "429", "times": 1000})
    try:
        answer = gcp(*BOTH).ask(GCP_QUESTION)
    finally:
        faults({"clear": True})
    assert answer.capacity
    assert [(gap.source, type(gap.error)) for gap in answer.gaps] == [(BOTH[1], ThrottledError)]


@pytest.mark.parametrize("what", ["capacity", "capacityHistory"])
def test_gcps_answers_fit_the_discovery_document(daemon: RunningGcp, gcp: Any, what: str):
    asked: list[tuple[str, Any, Any]] = []
    source = gcp(*BOTH)
    call = source._session.call

    def seen(api: str, method: str, path: str, body: Any, **more: Any) -> Any:
        answer = call(api, method, path, body, **more)
        asked.append((path, body, answer))
        return answer

    source._session.call = seen
    source.ask(Question(("us-central1",), GCP_TYPES[:1], 8))
    path, _, answer = next(each for each in asked if each[0].endswith(what))
    found = discovery.route("compute", "POST", path)
    assert found
    method = found[0]
    assert method.document["version"] == "beta"
    fits = schema.check(method.document, method.response, answer, method.id, set())
    assert set(fits) | {"location"} == set(answer) | {"location"}
