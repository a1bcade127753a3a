"""States, transitions and refusals of Batch's resources. This does not prove that AWS answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.localcloud.aws.batch.account import Account, account, role
from tests.localcloud.waiting import until


@pytest.fixture(scope="module")
def cloud() -> Iterator[Account]:
    with account(submit_rate=1000) as made:
        yield made


def refused(call: Any, **params: Any) -> str:
    """The message of Batch's refusal."""
    with pytest.raises(ClientError) as error:
        call(**params)
    assert error.value.response["Error"]["Code"] == "ClientException"
    return error.value.response["Error"]["Message"]


def test_a_compute_environment_is_creating_then_valid(cloud: Account) -> None:
    with cloud.still():
        made = cloud.environment(wait=False)
        assert cloud.status_of(made) == "CREATING"
        assert "must be VALID" in refused(
            cloud.batch.create_job_queue,
            jobQueueName="early",
            priority=1,
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": made}],
        )
    until(lambda: cloud.status_of(made) == "VALID")


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"instanceTypes": ["c99.large"]}, "c99.large does not exist"),
        ({"instanceTypes": ["c6i.large", "c7g.large"]}, "mixes CPU architectures"),
        ({"minvCpus": 8}, "minvCpus must not be greater"),
        ({"type": "FARGATE"}, "does not emulate computeResources.type FARGATE"),
        ({"subnets": []}, "subnets is required"),
        ({"scalingPolicy": {"minScaleDownDelayMinutes": 20}}, "does not emulate scalingPolicy"),
    ],
)
def test_resources_that_batch_does_not_take(cloud: Account, resources: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        cloud.environment(**resources)


@pytest.mark.parametrize(
    "resources",
    [
        {"subnets": ["subnet-00000000"]},
        {"securityGroupIds": ["sg-00000000"]},
        {"instanceRole": "arn:aws:iam::123456789012:instance-profile/none"},
        {"launchTemplate": {"launchTemplateId": "lt-00000000000000000", "version": "1"}},
    ],
)
def test_what_does_not_exist_makes_the_environment_invalid(cloud: Account, resources: dict[str, Any]) -> None:
    made = cloud.environment(wait=False, **resources)
    until(lambda: cloud.status_of(made) == "INVALID")
    found = cloud.batch.describe_compute_environments(computeEnvironments=[made])["computeEnvironments"]
    assert found[0]["statusReason"].startswith("CLIENT_ERROR")


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 129, "ä"])
def test_names_that_batch_does_not_take(cloud: Account, name: str) -> None:
    with pytest.raises(ClientError, match="must be 1 to 128"):
        cloud.batch.create_compute_environment(
            computeEnvironmentName=name, type="MANAGED", computeResources={"type": "SPOT", "maxvCpus": 1}
        )


def test_a_name_of_two_letters_is_fine_and_taken_once(cloud: Account) -> None:
    cloud.environment("ab", wait=False)
    with pytest.raises(ClientError, match="Object already exists"):
        cloud.environment("ab", wait=False)


def test_deleting_needs_disabled_and_no_relation(cloud: Account) -> None:
    environment, other = cloud.environment(), cloud.environment()
    queue = cloud.queue(environment)
    delete = cloud.batch.delete_compute_environment
    assert "must be DISABLED" in refused(delete, computeEnvironment=environment)
    with cloud.still():
        cloud.batch.update_compute_environment(computeEnvironment=environment, state="DISABLED")
        assert "being modified" in refused(delete, computeEnvironment=environment)
    until(lambda: cloud.status_of(environment) == "VALID")
    found = "Cannot delete, found existing JobQueue relationship"
    assert found in refused(delete, computeEnvironment=environment)

    order = [{"order": 1, "computeEnvironment": other}]
    with cloud.lingering():
        with cloud.still():
            cloud.batch.update_job_queue(jobQueue=queue, computeEnvironmentOrder=order)
            assert cloud.queue_status(queue) == "UPDATING"
        until(lambda: cloud.queue_status(queue) == "VALID")
        assert found in refused(delete, computeEnvironment=environment), "it lingers after the queue has moved"
    with cloud.still():
        delete(computeEnvironment=environment)
        assert cloud.status_of(environment) == "DELETING"
    until(lambda: cloud.status_of(environment) is None)


def test_deleting_the_queue_ends_the_relation_at_once(cloud: Account) -> None:
    environment = cloud.environment()
    queue = cloud.queue(environment)
    assert "must be DISABLED" in refused(cloud.batch.delete_job_queue, jobQueue=queue)
    with cloud.still():
        cloud.batch.update_job_queue(jobQueue=queue, state="DISABLED")
        assert "being modified" in refused(cloud.batch.delete_job_queue, jobQueue=queue)
    until(lambda: cloud.queue_status(queue) == "VALID")
    cloud.batch.update_compute_environment(computeEnvironment=environment, state="DISABLED")
    until(lambda: cloud.status_of(environment) == "VALID")
    cloud.batch.delete_job_queue(jobQueue=queue)
    until(lambda: cloud.queue_status(queue) is None)
    cloud.batch.delete_compute_environment(computeEnvironment=environment)


def test_queues_have_at_most_three_rungs_of_one_architecture(cloud: Account) -> None:
    x86, arm = cloud.environment(), cloud.environment(instanceTypes=["c7g.large"])
    with pytest.raises(ClientError, match="mix CPU architectures"):
        cloud.queue(x86, arm)
    with pytest.raises(ClientError, match="1 to 3"):
        cloud.queue(x86, x86, x86, x86)


def test_fifo_stays_fifo_and_fair_share_stays_fair(cloud: Account) -> None:
    policy = cloud.batch.create_scheduling_policy(name="policy", fairsharePolicy={"shareDecaySeconds": 60})["arn"]
    fifo, fair = cloud.queue(), cloud.queue(fair=True)
    update = cloud.batch.update_job_queue
    assert "cannot get a scheduling policy" in refused(update, jobQueue=fifo, schedulingPolicyArn=policy)
    assert "replaced, not removed" in refused(update, jobQueue=fair, schedulingPolicyArn="")
    update(jobQueue=fair, schedulingPolicyArn=policy)
    assert "used by a job queue" in refused(cloud.batch.delete_scheduling_policy, arn=policy)
    assert {"arn": policy} in cloud.batch.list_scheduling_policies()["schedulingPolicies"]
    described = cloud.batch.describe_scheduling_policies(arns=[policy])["schedulingPolicies"]
    assert described[0]["fairsharePolicy"] == {"shareDecaySeconds": 60}
    definition = cloud.definition("true")
    submit = {"jobName": "job", "jobDefinition": definition}
    assert "takes no shareIdentifier" in refused(cloud.batch.submit_job, jobQueue=fifo, shareIdentifier="a", **submit)
    assert "needs a shareIdentifier" in refused(cloud.batch.submit_job, jobQueue=fair, **submit)


def test_an_infrastructure_update_needs_the_service_linked_role(cloud: Account) -> None:
    own = cloud.batch.create_compute_environment(
        computeEnvironmentName="own-role",
        type="MANAGED",
        serviceRole=role("batch.amazonaws.com"),
        computeResources={
            "type": "SPOT", "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED", "maxvCpus": 4,
            "instanceTypes": ["c6i.large"], "subnets": [cloud.subnet], "instanceRole": cloud.profile,
        },
    )["computeEnvironmentArn"]  # fmt: skip
    until(lambda: cloud.status_of(own) == "VALID")
    change = {"instanceTypes": ["c7i.large"]}
    message = refused(cloud.batch.update_compute_environment, computeEnvironment=own, computeResources=change)
    assert "instanceTypes can only be updated with the service-linked role" in message
    cloud.batch.update_compute_environment(computeEnvironment=own, computeResources={"maxvCpus": 8})


def test_tags_of_every_kind_of_resource(cloud: Account) -> None:
    environment = cloud.environment()
    queue = cloud.queue(environment, tags={"team": "vision"})
    definition = cloud.definition("true")
    job = cloud.job(cloud.run(queue, definition, tags={"team": "vision"}))["jobArn"]
    assert cloud.api.tags(queue, "us-west-2") == {"team": "vision"}
    assert cloud.api.tags("arn:aws:batch:us-west-2:123456789012:job/none", "us-west-2") == {}
    for each in (environment, queue, definition, job):
        cloud.batch.tag_resource(resourceArn=each, tags={"a": "b", "c": "d"})
        cloud.batch.untag_resource(resourceArn=each, tagKeys=["c"])
        assert cloud.batch.list_tags_for_resource(resourceArn=each)["tags"].items() >= {"a": "b"}.items()
        assert "c" not in cloud.batch.list_tags_for_resource(resourceArn=each)["tags"]


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"environment": [{"name": "AWS_BATCH_X", "value": "1"}]}, "reserved prefix"),
        ({"mountPoints": [{"sourceVolume": "none", "containerPath": "/x"}]}, "not among the volumes"),
        ({"resourceRequirements": [{"type": "VCPU", "value": "1"}]}, "must name VCPU and MEMORY"),
        (
            {"resourceRequirements": [{"type": "VCPU", "value": "0.5"}, {"type": "MEMORY", "value": "9"}]},
            "whole numbers",
        ),
        ({"image": ""}, "image must not be null"),
        ({"privileged": True}, "does not emulate user or privileged"),
        ({"linuxParameters": {"maxSwap": 1}}, "does not emulate maxSwap in linuxParameters"),
        ({"networkConfiguration": {"assignPublicIp": "ENABLED"}}, "does not emulate networkConfiguration"),
        ({"user": "nobody"}, "does not emulate user or privileged"),
        ({"logConfiguration": {"logDriver": "splunk"}}, "does not emulate the log driver splunk"),
    ],
)
def test_definitions_that_are_refused(cloud: Account, definition: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        cloud.definition("true", **definition)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"retryStrategy": {"attempts": 11}}, "1 to 10"),
        ({"retryStrategy": {"evaluateOnExit": [{"action": "EXIT", "onReason": "*"}]}}, "needs attempts"),
        (
            {"retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "EXIT", "onExitCode": "a"}]}},
            "not a pattern",
        ),
        ({"retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "EXIT", "onReason": "*"}] * 6}}, "at most 5"),
        ({"timeout": {"attemptDurationSeconds": 59}}, "at least 60"),
        ({"parameters": {"a": "b"}}, "does not emulate parameters"),
        ({"schedulingPriority": 5}, "does not emulate schedulingPriority"),
        ({"platformCapabilities": ["FARGATE"]}, "does not emulate"),
    ],
)
def test_strategies_that_are_refused(cloud: Account, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        cloud.definition("true", more=more)


def test_definitions_have_revisions_and_deregister(cloud: Account) -> None:
    first = cloud.definition("true")
    name = first.split("/")[-1].split(":")[0]
    properties = cloud.batch.describe_job_definitions(jobDefinitions=[first])["jobDefinitions"][0][
        "containerProperties"
    ]
    again = cloud.batch.register_job_definition(
        jobDefinitionName=name, type="container", containerProperties=properties
    )
    assert again["revision"] == 2
    queue = cloud.queue()
    assert cloud.job(cloud.run(queue, name))["jobDefinition"] == again["jobDefinitionArn"]
    assert cloud.job(cloud.run(queue, first))["jobDefinition"] == first
    cloud.batch.deregister_job_definition(jobDefinition=again["jobDefinitionArn"])
    assert cloud.job(cloud.run(queue, name))["jobDefinition"] == first
    states = cloud.batch.describe_job_definitions(jobDefinitionName=name)["jobDefinitions"]
    assert [each["status"] for each in states] == ["ACTIVE", "INACTIVE"]
    with pytest.raises(ClientError, match="not found or is not active"):
        cloud.run(queue, again["jobDefinitionArn"])


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("create_consumable_resource", {"consumableResourceName": "a"}, "operation CreateConsumableResource"),
        ("list_service_jobs", {}, "operation ListServiceJobs"),
        ("create_compute_environment", {"computeEnvironmentName": "a", "type": "UNMANAGED"}, "unmanaged or EKS"),
        ("describe_jobs", {"jobs": ["a"] * 101}, "at most 100"),
        ("list_jobs", {}, "exactly one of"),
        ("list_jobs", {"arrayJobId": "a", "jobStatus": "DONE"}, "not one of SUBMITTED"),
        ("list_jobs", {"jobQueue": "none"}, "does not exist"),
        ("delete_job_queue", {"jobQueue": "none"}, "does not exist"),
        ("delete_compute_environment", {"computeEnvironment": "none"}, "does not exist"),
        ("terminate_job", {"jobId": "none", "reason": "r"}, "not found"),
        ("cancel_job", {"jobId": "none", "reason": "r"}, "not found"),
    ],
)
def test_calls_that_are_refused(cloud: Account, method: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        getattr(cloud.batch, method)(**params)


def test_a_member_that_the_model_does_not_have_is_refused(cloud: Account) -> None:
    batch = cloud.client("batch", parameter_validation=False)
    batch.meta.events.register("before-call", lambda params, **_: params.update(body=b'{"jobs": [], "job": 1}'))
    assert "Unknown parameter" in refused(batch.describe_jobs, jobs=[])
