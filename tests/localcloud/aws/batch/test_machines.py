"""Machines: metadata, user data, Spot's end, updates. This does not prove what real EC2 or a real ECS agent does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.aws.accounts import service_client
from localcloud.machines import namespaces
from tests.gate import Gate, gate
from tests.localcloud.aws.batch.account import Account, account
from tests.localcloud.waiting import until

DRAINING = "mkdir -p /etc/ecs && echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >> /etc/ecs/ecs.config"
RETRY_HOST = {
    "retryStrategy": {
        "attempts": 10,
        "evaluateOnExit": [{"action": "RETRY", "onStatusReason": "Host EC2*"}, {"action": "EXIT", "onReason": "*"}],
    }
}
PROBE = """
import json, os, urllib.error, urllib.request
def ask(method, path, **headers):
    request = urllib.request.Request("http://169.254.169.254" + path, method=method)
    for name, value in headers.items():
        request.add_header("X-aws-ec2-metadata-" + name.replace("_", "-"), value)
    try:
        return urllib.request.urlopen(request, timeout=60).read().decode()
    except urllib.error.HTTPError as error:
        return error.code
answers = {"v1": ask("GET", "/latest/meta-data/instance-id"), "no ttl": ask("PUT", "/latest/api/token"),
           "bad token": ask("GET", "/latest/meta-data/instance-id", token="x")}
token = ask("PUT", "/latest/api/token", token_ttl_seconds="60")
for path in ("meta-data/instance-id", "meta-data/instance-type", "meta-data/placement/region",
             "meta-data/placement/availability-zone", "meta-data/instance-life-cycle", "meta-data/iam/info",
             "meta-data/iam/security-credentials/", "meta-data/spot/instance-action", "meta-data/nothing",
             "dynamic/instance-identity/document"):
    answers[path] = ask("GET", "/latest/" + path, token=token)
role = answers["meta-data/iam/security-credentials/"]
answers["credentials"] = ask("GET", "/latest/meta-data/iam/security-credentials/" + role, token=token)
relative = os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
if relative:
    answers["task"] = urllib.request.urlopen("http://169.254.170.2" + relative, timeout=60).read().decode()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[Account]:
    with account() as made:
        yield made


@pytest.fixture
def held() -> Iterator[Gate]:
    with gate() as made:
        yield made


def machines(cloud: Account) -> list[dict[str, Any]]:
    return cloud.api.control["machines"]({})["machines"]


@pytest.mark.namespaces
def test_instance_metadata_as_a_child_sees_it(cloud: Account) -> None:
    queue = cloud.queue(cloud.environment(launchTemplate=cloud.template(MetadataOptions={"HttpTokens": "required"})))
    job = cloud.run(queue, cloud.definition("python3", "-c", PROBE))
    assert cloud.ended(job)["status"] == "SUCCEEDED"
    seen = json.loads(cloud.lines(job)[0])
    assert (seen["v1"], seen["no ttl"], seen["bad token"]) == (401, 400, 401)
    assert seen["meta-data/instance-type"] == "c6i.large"
    assert seen["meta-data/placement/region"] == "us-west-2"
    assert seen["meta-data/placement/availability-zone"].startswith("us-west-2")
    assert seen["meta-data/instance-life-cycle"] == "spot"
    assert seen["meta-data/spot/instance-action"] == 404
    assert seen["meta-data/nothing"] == 404
    assert json.loads(seen["meta-data/iam/info"])["InstanceProfileArn"] == cloud.profile
    assert json.loads(seen["dynamic/instance-identity/document"])["instanceId"] == seen["meta-data/instance-id"]
    assert json.loads(seen["credentials"])["AccessKeyId"].startswith("ASIA")
    assert "task" not in seen, "a task without a role is told of no credentials"


@pytest.mark.namespaces
def test_version_one_of_the_metadata_where_the_template_allows_it(cloud: Account) -> None:
    queue = cloud.queue(cloud.environment(launchTemplate=cloud.template(MetadataOptions={"HttpTokens": "optional"})))
    job = cloud.run(queue, cloud.definition("python3", "-c", PROBE))
    assert cloud.ended(job)["status"] == "SUCCEEDED"
    assert json.loads(cloud.lines(job)[0])["v1"].startswith("i-")


@pytest.mark.namespaces
def test_user_data_runs_as_rendered_and_changes_nothing_here(cloud: Account, held: Gate) -> None:
    script = f"""#!/bin/bash
{DRAINING}
mkfs.xfs /dev/nvme1n1
mkdir -p /mnt/shared /var/lib/data /etc/tidemill-was-here
mount -t nfs4 -o nfsvers=4.1,rsize=1048576 fs-0123abcd.efs.us-west-2.amazonaws.com:/ /mnt/shared
systemctl restart ecs || exit 1
echo written by user data > /var/lib/data/file
echo ECS_IMAGE_PULL_BEHAVIOR=once >> /etc/ecs/ecs.config
touch /usr/local/bin/intruder && exit 2
exit 0
"""
    queue = cloud.queue(cloud.environment(launchTemplate=cloud.template(script)))
    volumes = [
        {"name": "data", "host": {"sourcePath": "/var/lib/data"}},
        {"name": "shared", "host": {"sourcePath": "/mnt/shared"}},
    ]
    mounts = [
        {"sourceVolume": "data", "containerPath": "/data", "readOnly": True},
        {"sourceVolume": "shared", "containerPath": "/srv/deep/shared"},
    ]
    definition = cloud.definition(
        "sh", "-c", f"cat /data/file; touch /data/x || echo read-only; echo kept > /srv/deep/shared/kept; {held.wait}",
        mountPoints=mounts, volumes=volumes,
    )  # fmt: skip
    job = cloud.run(queue, definition)
    config = until(lambda: [each["config"] for each in machines(cloud) if job in each["children"]])[0]
    held.open()
    assert config == {"ECS_ENABLE_SPOT_INSTANCE_DRAINING": "true", "ECS_IMAGE_PULL_BEHAVIOR": "once"}
    assert cloud.ended(job)["status"] == "SUCCEEDED"
    lines = cloud.lines(job)
    assert lines[0] == "written by user data"
    assert lines[-1] == "read-only"
    for path in ("/var/lib/data", "/mnt/shared", "/etc/tidemill-was-here", "/usr/local/bin/intruder", "/srv/deep"):
        assert not Path(path).exists()
    shared = cloud.api._core.settings.state_dir / "efs/fs-0123abcd/kept"
    assert shared.read_text() == "kept\n"


def test_failing_user_data_is_logged_and_the_agent_joins(cloud: Account, caplog: pytest.LogCaptureFixture) -> None:
    queue = cloud.queue(cloud.environment(launchTemplate=cloud.template("#!/bin/sh\necho broken >&2\nexit 3\n")))
    assert cloud.ended(cloud.run(queue, cloud.definition("true")))["status"] == "SUCCEEDED"
    assert "ended with 3" in caplog.text
    assert "broken" in caplog.text


@pytest.mark.parametrize("draining", [True, False])
def test_a_reclaimed_machine_gets_notice_and_then_nothing(draining: bool, held: Gate) -> None:
    with account(reclaim_seconds=1.5) as cloud:
        script = f"#!/bin/sh\n{DRAINING if draining else ':'}\n"
        queue = cloud.queue(
            cloud.environment(launchTemplate=cloud.template(script), instanceTypes=["c6i.large"], maxvCpus=4)
        )
        watch = cloud.definition("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", cpus=2, more=RETRY_HOST)
        waits, brief = cloud.definition("sh", "-c", held.wait, cpus=1), cloud.definition("true", cpus=1)
        job = cloud.run(queue, watch)
        cloud.becomes(job, "RUNNING")
        doomed = cloud.api.control["reclaim"]({})["instance"]
        assert [each["doomed"] for each in machines(cloud) if each["instance"] == doomed] == [True]
        again = until(lambda: (j := cloud.job(job))["status"] == "RUNNING" and len(j["attempts"]) == 1 and j)
        assert again["attempts"][0]["statusReason"] == f"Host EC2 (instance {doomed}) terminated."
        assert "exitCode" not in again["attempts"][0]["container"]
        assert doomed not in [each["instance"] for each in machines(cloud)]
        cloud.batch.terminate_job(jobId=job, reason="enough")
        until(lambda: not machines(cloud))

        cloud.api.control["settings"]({"reclaim_seconds": 600})
        first = cloud.run(queue, waits)
        cloud.becomes(first, "RUNNING")
        doomed = cloud.api.control["reclaim"]({})["instance"]
        cloud.ended(cloud.run(queue, brief))
        held.open()
        cloud.ended(first)
        late = [each for each in cloud.api.control["placements"]({})["placements"] if each["doomed"]]
        assert bool(late) is not draining, "only draining keeps new children off a machine that has its notice"
        assert {each["instance"] for each in late} <= {doomed}


@pytest.mark.namespaces
def test_the_notice_is_in_the_metadata() -> None:
    with account(reclaim_seconds=600) as cloud:
        sees_its_notice(cloud)


def sees_its_notice(cloud: Account) -> None:
    script = """
import json, time, urllib.error, urllib.request
base = "http://169.254.169.254/latest/"
put = urllib.request.Request(base + "api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
token = urllib.request.urlopen(put).read().decode()
get = urllib.request.Request(base + "meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": token})
while True:
    try:
        print(urllib.request.urlopen(get).read().decode(), flush=True)
        break
    except urllib.error.HTTPError as error:
        assert error.code == 404
        time.sleep(0.05)
"""
    job = cloud.run(cloud.queue(), cloud.definition("python3", "-c", script))
    cloud.becomes(job, "RUNNING")
    running = until(lambda: [each for each in machines(cloud) if job in each["children"]])
    cloud.api.control["reclaim"]({"instance": running[0]["instance"]})
    assert cloud.ended(job)["status"] == "SUCCEEDED"
    notice = json.loads(cloud.lines(job)[0])
    assert notice["action"] == "terminate"
    assert notice["time"].endswith("Z")


def test_what_cannot_be_reclaimed() -> None:
    with account() as empty:
        assert empty.api.control["reclaim"]({}) == {"instance": None}
        with pytest.raises(ValueError, match="no Spot machine i-1"):
            empty.api.control["reclaim"]({"instance": "i-1"})
        queue = empty.queue(empty.environment(type="EC2", allocationStrategy="BEST_FIT_PROGRESSIVE"))
        job = empty.run(queue, empty.definition("sleep", "60"))
        empty.becomes(job, "RUNNING")
        assert empty.api.control["reclaim"]({}) == {"instance": None}, "On-Demand is not taken away"


def test_machines_fit_what_waits_stay_within_the_limit_and_go_when_idle(held: Gate) -> None:
    with account() as cloud:
        environment = cloud.environment(instanceTypes=["c6i.large", "c6i.xlarge", "c6i.2xlarge"], maxvCpus=7)
        queue = cloud.queue(environment)
        parent = cloud.run(queue, cloud.definition("sh", "-c", held.wait), size=12)
        until(lambda: sum(len(each["children"]) for each in machines(cloud)) == 8)
        assert sorted(each["type"] for each in machines(cloud)) == ["c6i.large", "c6i.large", "c6i.xlarge"]
        held.open()
        assert cloud.ended(parent)["status"] == "SUCCEEDED"
        until(lambda: not machines(cloud))


def test_machines_that_must_always_be_there() -> None:
    with account() as warm:
        warm.environment(instanceTypes=["c6i.large"], minvCpus=4, maxvCpus=8)
        until(lambda: [each["state"] for each in machines(warm)] == ["running", "running"])
        first = {each["instance"] for each in machines(warm)}
        time.sleep(1)
        assert {each["instance"] for each in machines(warm)} == first


def test_the_next_rung_opens_when_the_first_is_full(held: Gate) -> None:
    with account() as cloud:
        spot = cloud.environment("spot", instanceTypes=["c6i.large"], maxvCpus=2)
        demand = cloud.environment("demand", type="EC2", instanceTypes=["c6i.large"], maxvCpus=2)
        parent = cloud.run(cloud.queue(spot, demand), cloud.definition("sh", "-c", held.wait, cpus=2), size=3)
        until(lambda: {each["environment"] for each in machines(cloud) if each["children"]} == {"spot", "demand"})
        assert len(machines(cloud)) == 2
        held.open()
        assert cloud.ended(parent)["status"] == "SUCCEEDED"


def test_the_next_rung_opens_while_spot_is_dry() -> None:
    """As Batch's user guide has it; that Batch does so, and how soon, a check of the first account asks."""
    with account(stockout=("SPOT",)) as cloud:
        spot = cloud.environment("spot", instanceTypes=["c6i.large"], maxvCpus=64)
        demand = cloud.environment("demand", type="EC2", instanceTypes=["c6i.large"], maxvCpus=2)
        job = cloud.run(cloud.queue(spot, demand), cloud.definition("true"))
        assert cloud.ended(job)["status"] == "SUCCEEDED"
        assert {each["environment"] for each in machines(cloud)} <= {"demand"}
        waits = cloud.run(cloud.queue(spot), cloud.definition("true"))
        reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
        until(lambda: (cloud.job(waits).get("statusReason") or "").startswith(reason))


@pytest.mark.parametrize("patient", [True, False])
def test_an_infrastructure_update_replaces_machines(patient: bool, held: Gate) -> None:
    with account(time_scale=60 if patient else 0.01) as cloud:
        environment = cloud.environment(instanceTypes=["c6i.large"])
        job = cloud.run(cloud.queue(environment), cloud.definition("sh", "-c", held.wait, more=RETRY_HOST))
        cloud.becomes(job, "RUNNING")
        old = machines(cloud)[0]["instance"]
        with cloud.still():
            cloud.batch.update_compute_environment(
                computeEnvironment=environment,
                computeResources={"instanceTypes": ["c7i.large"]},
                updatePolicy={"jobExecutionTimeoutMinutes": 1},
            )
            assert cloud.status_of(environment) == "UPDATING"
        until(lambda: patient or cloud.job(job)["attempts"])
        held.open()
        done = cloud.ended(job)
        assert done["status"] == "SUCCEEDED"
        assert len(done["attempts"]) == (1 if patient else 2)
        until(lambda: cloud.status_of(environment) == "VALID")
        assert old not in [each["instance"] for each in machines(cloud)]
        other = cloud.run(
            cloud.batch.describe_job_queues()["jobQueues"][0]["jobQueueArn"], cloud.definition("sleep", "600")
        )
        cloud.becomes(other, "RUNNING")
        assert {each["type"] for each in machines(cloud) if each["children"]} == {"c7i.large"}


def test_a_scaling_update_leaves_machines_alone(cloud: Account, held: Gate) -> None:
    environment = cloud.environment()
    job = cloud.run(cloud.queue(environment), cloud.definition("sh", "-c", held.wait))
    cloud.becomes(job, "RUNNING")
    cloud.batch.update_compute_environment(computeEnvironment=environment, computeResources={"maxvCpus": 16})
    until(lambda: cloud.status_of(environment) == "VALID")
    assert cloud.job(job)["status"] == "RUNNING"
    held.open()
    assert len(cloud.ended(job)["attempts"]) == 1


@pytest.mark.namespaces(False)
def test_without_namespaces_user_data_is_told_where_disk_and_metadata_are() -> None:
    watch = """
import json, pathlib, time, urllib.error, urllib.request
FOLDER, BASE = "/var/lib/tidemill/worker", "http://169.254.169.254/latest/"
ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
put = urllib.request.Request(BASE + "api/token", method="PUT", headers=ttl)
token = {"X-aws-ec2-metadata-token": urllib.request.urlopen(put).read().decode()}
def ask(path):
    return urllib.request.urlopen(urllib.request.Request(BASE + "meta-data/" + path, headers=token)).read().decode()
pathlib.Path(FOLDER, "machine").write_text(ask("instance-type"))
while True:
    try:
        pathlib.Path(FOLDER, "notice").write_text(ask("spot/instance-action"))
        break
    except urllib.error.HTTPError:
        time.sleep(0.05)
"""
    script = f"""#!/bin/sh
{DRAINING}
mkdir -p /opt/watch /etc/systemd/system /var/lib/tidemill/worker /mnt/shared
cat > /opt/watch/watch.py <<'EOF'
{watch}
EOF
echo ExecStart=/usr/bin/python3 /opt/watch/watch.py > /etc/systemd/system/watch.service
mount -t nfs4 fs-0123abcd.efs.us-west-2.amazonaws.com:/ /mnt/shared
systemctl enable --now watch.service
"""
    mounted = {"shared": "/mnt/shared", "tidemill": "/var/lib/tidemill/worker"}
    with account(namespaces=False, reclaim_seconds=600) as cloud:
        assert cloud.api.health()["namespaces"] == namespaces.OFF
        queue = cloud.queue(cloud.environment(launchTemplate=cloud.template(script), instanceTypes=["c6i.large"]))
        definition = cloud.definition(
            "sh", "-c", "cat $THERE/machine; until test -e $THERE/notice; do sleep 0.05; done; echo kept > $KEPT",
            environment=[{"name": "THERE", "value": "/tidemill"}, {"name": "KEPT", "value": "/shared/kept"}],
            mountPoints=[{"sourceVolume": name, "containerPath": f"/{name}"} for name in mounted],
            volumes=[{"name": name, "host": {"sourcePath": path}} for name, path in mounted.items()],
        )  # fmt: skip
        job = cloud.run(queue, definition)
        running = until(lambda: [each for each in machines(cloud) if each["children"]])[0]
        assert running["config"] == {"ECS_ENABLE_SPOT_INSTANCE_DRAINING": "true"}
        cloud.becomes(job, "RUNNING")
        cloud.api.control["reclaim"]({})
        assert cloud.ended(job)["status"] == "SUCCEEDED"
        assert cloud.lines(job) == ["c6i.large"]
        assert (cloud.api._core.settings.state_dir / "efs/fs-0123abcd/kept").read_text() == "kept\n"
    assert not Path("/opt/watch").exists()
    assert not Path("/var/lib/tidemill/worker").exists()


@pytest.mark.namespaces
def test_mountpoint_shows_what_the_instance_role_may_read(cloud: Account, tmp_path: Path) -> None:
    s3 = service_client("s3", "us-west-2")
    s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    out = f"v2/{tmp_path}/owned"  # Two slashes: a name that no folder has, and that Mountpoint leaves out.
    for key in ("v1/weights", "v2/deep/weights", out):
        s3.put_object(Bucket="models", Key=key, Body=key.encode())
    script = "#!/bin/sh\ninstall -d /mnt/s3\nmount-s3 --read-only --allow-other --prefix v2/ models /mnt/s3\n"
    definition = cloud.definition(
        "sh", "-c", "cd /models; find . -type f; cat deep/weights",
        mountPoints=[{"sourceVolume": "s3", "containerPath": "/models", "readOnly": True}],
        volumes=[{"name": "s3", "host": {"sourcePath": "/mnt/s3"}}],
    )  # fmt: skip
    job = cloud.run(cloud.queue(cloud.environment(launchTemplate=cloud.template(script))), definition)
    assert cloud.ended(job)["status"] == "SUCCEEDED"
    assert cloud.lines(job) == ["./deep/weights", "v2/deep/weights"]
    assert not (tmp_path / "owned").exists()
    assert (cloud.instance_role, "s3:ListBucket", "arn:aws:s3:::models") in cloud.asked


def test_a_job_is_not_lost_by_the_reason_that_batch_shows_while_it_scales_from_zero() -> None:
    with account() as cloud:
        queue = cloud.queue()
        with cloud.still():
            job = cloud.run(queue, cloud.definition("true"))
            waiting = until(lambda: (j := cloud.job(job)).get("statusReason") and j)
        assert waiting["status"] == "RUNNABLE"
        assert waiting["statusReason"].startswith("MISCONFIGURATION")
        assert cloud.ended(job)["status"] == "SUCCEEDED"


def test_a_machine_whose_role_may_not_be_an_agent_takes_no_work() -> None:
    with account() as cloud:
        cloud.denied = {"ecs:RegisterContainerInstance"}
        job = cloud.run(cloud.queue(), cloud.definition("true"))
        until(lambda: "failed" in {machine["state"] for machine in machines(cloud)})
        assert cloud.job(job)["status"] == "RUNNABLE"
        asked = {(role, action, arn.split("/")[1].partition("-")[0]) for role, action, arn in cloud.asked}
        assert asked == {(cloud.instance_role, "ecs:RegisterContainerInstance", "AWSBatch")}
