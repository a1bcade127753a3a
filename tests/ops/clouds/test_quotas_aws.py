"""A stack's use of an account's quotas on AWS. The answers have AWS's form; no quota of a real account was read."""

from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from click.testing import CliRunner, Result

from components.config import parse
from components.services.batch.quotas import ADDRESSES, DISKS, ENVIRONMENTS, JOB_QUEUES, VPCS, Quota, needed, shortfalls
from ops.clouds import quotas

IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"
SPOT = {"market": "spot", "max_cpus": 640}
OURS = {"tidemill:team": "vision", "tidemill:environment": "prod", "cost-center": "1"}


def asked(network: dict[str, Any] | None = None, **queue: Any) -> dict[Quota, int]:
    queues = {"cpu": {"images": {"default": IMAGE}, "capacity": [SPOT], **queue}}
    values = {"team": "vision", "environment": "dev", "cloud": "aws", "queues": queues}
    return needed(parse(values | ({"network": network} if network else {})))


def cpus(wanted: dict[Quota, int]) -> dict[str, int]:
    return {quota.code: amount for quota, amount in wanted.items() if quota.title.startswith("vCPUs")}


def test_each_class_of_machines_has_its_quota_and_each_must_suffice():
    gpu = {"families": ["g6", "p5"], "cpus": {"min": 4, "max": 192}}
    item = {"cpus": 4, "memory_mib": 8192, "gpus": 1}
    both = [SPOT, {"market": "on_demand", "max_cpus": 192}]
    assert cpus(asked(item=item, machines=gpu, capacity=both)) == {
        "L-3819A6DF": 640, "L-C4BD4855": 640, "L-DB2E81BA": 192, "L-417A185B": 192
    }  # fmt: skip


def test_rungs_of_one_class_add_up():
    assert cpus(asked(capacity=[SPOT, {"market": "spot", "max_cpus": 60, "name": "more"}])) == {"L-34B43A08": 700}


def test_machines_of_a_capacity_block_count_in_no_quota_of_cpus():
    block = {"market": "on_demand", "max_cpus": 192, "reservation": "cr-0123456789abcdef0", "block": True}
    machines = {"families": ["p5"], "cpus": {"min": 192, "max": 192}, "zones": ["a"]}
    item = {"cpus": 24, "memory_mib": 65536, "gpus": 1}
    assert cpus(asked(item=item, machines=machines, capacity=[block])) == {}


def test_disks_are_those_of_the_smallest_machines():
    machines = {"families": ["c7i"], "cpus": {"min": 8, "max": 96}}
    assert asked(machines=machines, scratch_gib=974)[DISKS] == 640 // 8


@pytest.mark.parametrize(
    ("network", "made"),
    [
        ({"create": {"egress": "nat"}}, {"VPCs", "internet gateways", "gateway endpoints of VPCs", ADDRESSES.title}),
        ({"create": {"egress": "public"}}, {"VPCs", "internet gateways", "gateway endpoints of VPCs"}),
        ({"create": {"egress": "endpoints"}}, {"VPCs", "gateway endpoints of VPCs"}),
        ({"shared": "organization/tidemill-shared/prod"}, set()),
    ],
)
def test_a_network_counts_where_the_stack_makes_it(network, made):
    of_queue = {*asked({"shared": "organization/tidemill-shared/prod"})}
    assert {quota.title for quota in {*asked(network)} - of_queue} == made


def test_what_others_have_counts_too():
    wanted, limits = {VPCS: 1, JOB_QUEUES: 2, ENVIRONMENTS: 3}, {VPCS: 5, JOB_QUEUES: 50, ENVIRONMENTS: 50}
    short = shortfalls(wanted, limits, {VPCS: 5, JOB_QUEUES: 48, ENVIRONMENTS: 47})
    assert [str(each) for each in short] == [
        "VPCs (L-F678F1CE): the stack asks for up to 1, the account may have 5 and has 5 without this stack"
    ]


class Account:
    """Recorded answers, which have AWS's form."""

    def __init__(self) -> None:
        self.limits: dict[str, float] = {}
        self.queues: list[dict[str, Any]] = []
        self.addresses: list[dict[str, Any]] = []
        self.refused = ""

    def call(self, client: BaseClient, name: str, params: dict[str, Any]) -> dict[str, Any]:
        model = client.meta.service_model.operation_model(name)
        validate_parameters(params, model.input_shape)
        if name == self.refused:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not allowed"}}, name)
        if name == "GetServiceQuota" and params["QuotaCode"] not in self.limits:
            raise client.exceptions.NoSuchResourceException({"Error": {"Code": "NoSuchResourceException"}}, name)
        answer = self.answer(name, params)
        validate_parameters(answer, model.output_shape)
        return answer

    def answer(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        match name:
            case "GetServiceQuota":
                return {"Quota": {"QuotaCode": params["QuotaCode"], "Value": self.limits[params["QuotaCode"]]}}
            case "GetAWSDefaultServiceQuota":
                return {"Quota": {"QuotaCode": params["QuotaCode"], "Value": 5.0}}
            case "DescribeJobQueues":
                return {"jobQueues": self.queues}
            case "DescribeAddresses":
                return {"Addresses": self.addresses}
        field = {"DescribeComputeEnvironments": "computeEnvironments"}.get(name, name.removeprefix("Describe"))
        return {field: []}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    account = Account()

    def call(client: BaseClient, name: str, params: dict[str, Any]) -> dict[str, Any]:
        return account.call(client, name, params)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    account.limits = {quota.code: 10.0**6 for quota in needed(quotas.read_config("vision-prod")) if quota.code}
    return account


def run(stack: str = "vision-prod") -> Result:
    return CliRunner().invoke(quotas.quotas, ["--stack", stack])


def test_an_account_that_has_enough(account):
    done = run()
    assert (done.exit_code, done.output) == (0, "The quotas of the account in us-west-2 are enough.\n")


def test_a_class_of_machines_that_is_short(account):
    account.limits["L-34B43A08"] = 64.0
    done = run()
    assert done.exit_code == 1
    assert done.output == (
        "vCPUs of spot machines of class standard (L-34B43A08): the stack asks for up to 4000, the account may have "
        "64\n"
        "Ask for more in the account in us-west-2: https://us-west-2.console.aws.amazon.com/servicequotas/home, or "
        "lower max_cpus.\n"
    )


def queue(name: str, tags: dict[str, str]) -> dict[str, Any]:
    return {
        "jobQueueName": name, "jobQueueArn": f"arn:aws:batch:us-west-2:123456789012:job-queue/{name}",
        "state": "ENABLED", "priority": 1, "computeEnvironmentOrder": [], "tags": tags,
    }  # fmt: skip


def test_what_the_stack_has_already_is_not_counted_twice(account):
    account.queues = [queue(f"q{number}", OURS) for number in range(60)]
    assert run().exit_code == 0
    account.queues = [queue(f"q{number}", {}) for number in range(49)]
    assert run().output.startswith(
        "job queues of Batch: the stack asks for up to 2, the account may have 50 and has 49 without this stack\n"
    )


def test_a_quota_that_the_account_never_changed_has_its_default(account):
    del account.limits[ADDRESSES.code]
    tags = [{"Key": key, "Value": value} for key, value in OURS.items()]
    account.addresses = [{"PublicIp": "192.0.2.1", "Tags": tags}, *({"PublicIp": f"192.0.2.{n}"} for n in range(2, 6))]
    assert run().exit_code == 0
    account.addresses.append({"PublicIp": "192.0.2.9"})
    assert run().output.startswith(
        "Elastic IP addresses (L-0263D0A3): the stack asks for up to 1, the account may have 5 and has 5 without"
    )


@pytest.mark.parametrize("call", ["GetServiceQuota", "DescribeJobQueues", "DescribeVpcEndpoints"])
def test_a_login_that_may_not_ask_is_told_so(account, call):
    account.refused = call
    done = run()
    assert done.exit_code == 1
    assert done.output.startswith("Error: the quotas could not be read: An error occurred (AccessDeniedException)")
