"""Groups, autoscalers and VMs behind the Compute API, as a daemon serves them. Not proved: fields of Google's answers
beyond the discovery document."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.cloud import ROOT
from localcloud.gcp import project
from localcloud.gcp.compute.api import Compute
from localcloud.gcp.compute.vm import Vm
from localcloud.gcp.monitoring import Monitoring
from localcloud.gcp.wire import RestError
from tests.localcloud.gcp.compute.vms import UNIT, cloud_config
from tests.localcloud.gcp.running import RunningGcp
from tests.localcloud.waiting import sleeping, until

PROJECT = f"projects/{project.PROJECT}"
REGION = f"{PROJECT}/regions/{project.REGION}"
METRIC = "pubsub.googleapis.com/subscription/num_undelivered_messages"
WORKS = """
trap : TERM  # a stop sends it as soon as the container has ended
docker run --rm --name w --network host --entrypoint /bin/sh image -c \
  'trap "exit 70" TERM; echo "works as $HOSTNAME $EXTRA"; while :; do sleep 0.05; done'
echo "ended with $?"
"""


def journal(vm: dict[str, Any]) -> str:
    return Path(vm["journal"]).read_text()


class Metric:
    """Stands in for Monitoring: a backlog that a test sets."""

    def __init__(self) -> None:
        self.value: float | None = 0

    def newest(self, metric: str, wanted: str, now: float) -> tuple[float, float] | None:
        assert metric == METRIC
        return None if self.value is None else (now - 120, self.value)


class Made(RunningGcp):
    """A daemon with a worker's account, and the calls that a stack and a reconciler make."""

    def __init__(self, state: Path) -> None:
        # A minute of the cloud is a second here; a guest has half a minute to stop.
        super().__init__(state, time_factor=60, spot_off_seconds=1800, boot_seconds=1)
        self.metric = Metric()
        self.site.plugin(Monitoring).newest = self.metric.newest
        self.compute = self.site.plugin(Compute)
        self.count = 0
        self.call("iam", "POST", f"v1/{PROJECT}/serviceAccounts", {"accountId": "worker"})
        self.account = f"worker@{project.PROJECT}.iam.gserviceaccount.com"

    def control(self, name: str, **body: Any) -> Any:
        return self.controls[f"compute/{name}"](body)

    def template(self, script: str = WORKS, unit: str = UNIT) -> str:
        self.count += 1
        name = f"t-{self.count}"
        properties = {
            "machineType": "n2-standard-4",
            "scheduling": {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False,
                           "instanceTerminationAction": "STOP", "onHostMaintenance": "TERMINATE"},
            "metadata": {"items": [{"key": "user-data", "value": cloud_config(script, unit)}]},
            "serviceAccounts": [{"email": self.account, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
        }  # fmt: skip
        self.call("compute", "POST", f"{REGION}/instanceTemplates", {"name": name, "properties": properties})
        return f"{REGION}/instanceTemplates/{name}"

    def group(self, size: int = 0, **fields: Any) -> str:
        self.count += 1
        name = f"g-{self.count}"
        body = {
            "name": name,
            "baseInstanceName": name,
            "targetSize": size,
            "versions": [{"instanceTemplate": fields.pop("template", None) or self.template()}],
            "distributionPolicy": {"targetShape": "BALANCED"},
            "updatePolicy": {"type": "OPPORTUNISTIC", "instanceRedistributionType": "NONE"},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
            **fields,
        }
        operation = self.call("compute", "POST", f"{REGION}/instanceGroupManagers", body)
        assert operation["status"] == "DONE"
        return f"{REGION}/instanceGroupManagers/{name}"

    def autoscaler(self, group: str, **policy: Any) -> str:
        metric = {
            "metric": METRIC, "singleInstanceAssignment": 2,
            "filter": 'resource.type = "pubsub_subscription" AND resource.labels.subscription_id = "s"',
        }  # fmt: skip
        body = {
            "name": group.rpartition("/")[2],
            "target": group,
            "autoscalingPolicy": {"minNumReplicas": 0, "maxNumReplicas": 10, "mode": "ONLY_SCALE_OUT",
                                  "stabilizationPeriodSec": 60, "customMetricUtilizations": [metric], **policy},
        }  # fmt: skip
        self.call("compute", "POST", f"{REGION}/autoscalers", body)
        return f"{REGION}/autoscalers/{body['name']}"

    def listed(self, group: str, query: str = "") -> list[dict[str, Any]]:
        return self.call("compute", "POST", f"{group}/listManagedInstances{query}").get("managedInstances", [])

    def running(self, group: str, count: int) -> list[dict[str, Any]]:
        """Wait until this many instances of a group run and their workers have said so. Returns them."""

        def look() -> list[dict[str, Any]]:
            made = [each for each in self.control("list")["instances"] if each["containers"]]
            working = [each["name"] for each in made if "works as" in journal(each)]
            found = [each for each in self.listed(group) if each.get("instanceStatus") == "RUNNING"]
            return found if len(found) == count and all(each["name"] in working for each in found) else []

        return until(look)

    def one(self, name: str) -> dict[str, Any]:
        return next(each for each in self.control("list")["instances"] if each["name"] == name)

    def delete(self, group: str, names: list[str], **more: Any) -> Any:
        zones = {each["name"]: each["instance"].partition("/zones/")[2] for each in self.listed(group)}
        links = [f"zones/{zones[name]}" for name in names]
        return self.call("compute", "POST", f"{group}/deleteInstances", {"instances": links, **more})

    def gone(self, group: str) -> None:
        """Remove a group, as a stack does."""
        self.call("compute", "DELETE", group)
        name = group.rpartition("/")[2]
        assert not [each for each in self.control("list")["instances"] if each["group"] == name]


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    with tempfile.TemporaryDirectory(prefix="gcp-") as state, Made(Path(state)) as site:
        yield site


def test_from_a_backlog_to_machines_and_back_to_zero(made: Made) -> None:
    made.metric.value = 0
    group = made.group()
    scaler = made.autoscaler(group)
    until(lambda: made.call("compute", "GET", scaler).get("recommendedSize") == 0)
    made.metric.value = 3
    first, second = made.running(group, 2)
    assert made.call("compute", "GET", group)["targetSize"] == 2
    assert {each["type"] for each in made.call("compute", "GET", scaler)["statusDetails"]} == {"MODE_ONLY_SCALE_OUT"}
    made.metric.value = 0
    until(lambda: made.call("compute", "GET", scaler)["recommendedSize"] == 0)

    made.control("preempt", instance=first["name"])
    stopped = until(lambda: [e for e in made.listed(group) if e.get("instanceStatus") == "TERMINATED"])
    assert [each["name"] for each in stopped] == [first["name"]]
    lines = journal(made.one(first["name"]))
    assert f"works as {first['name']}" in lines
    assert "ended with 70" in lines, "the guest drained before it was cut off"
    assert made.call("compute", "GET", group)["targetSize"] == 2, "a stopped machine stays wanted"

    operation = made.delete(group, [first["name"], second["name"]], skipInstancesOnValidationError=True)
    assert (operation["status"], operation["operationType"]) == ("DONE", "deleteInstances")
    until(lambda: not made.listed(group))
    assert made.call("compute", "GET", group)["targetSize"] == 0
    with pytest.raises(RestError, match="already being used"):
        made.call("compute", "DELETE", group)
    made.call("compute", "DELETE", scaler)
    made.gone(group)


def test_the_mode_of_an_autoscaler_is_patched(made: Made) -> None:
    group = made.group()
    scaler = made.autoscaler(group, mode="OFF")
    made.metric.value = 2
    until(lambda: made.call("compute", "GET", scaler).get("recommendedSize") == 1)
    assert made.call("compute", "GET", group)["targetSize"] == 0
    name = scaler.rpartition("/")[2]
    patch = {"name": name, "autoscalingPolicy": {"mode": "ONLY_SCALE_OUT"}}
    made.call("compute", "PATCH", f"{REGION}/autoscalers?autoscaler={name}", patch)
    made.running(group, 1)
    assert made.call("compute", "GET", scaler)["autoscalingPolicy"]["maxNumReplicas"] == 10
    made.call("compute", "DELETE", scaler)
    made.gone(group)


def test_a_stockout_is_told_and_is_over(made: Made) -> None:
    made.control("stockout", limit=1, market="spot")
    group = made.group(3)
    made.running(group, 1)
    waiting = [each for each in made.listed(group) if each["currentAction"] == "CREATING"]
    assert len(waiting) == 2
    assert waiting[0]["lastAttempt"]["errors"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    errors = made.call("compute", "GET", f"{group}/listErrors")["items"]
    assert {each["error"]["code"] for each in errors} == {"ZONE_RESOURCE_POOL_EXHAUSTED"}
    assert errors[0]["instanceActionDetails"]["action"] == "CREATING"
    made.control("stockout", limit=None)
    made.running(group, 3)
    made.gone(group)


def test_a_killed_worker_ends_its_machine_through_the_script(made: Made) -> None:
    group = made.group(1)
    (vm,) = made.running(group, 1)
    (pid,) = made.one(vm["name"])["containers"].values()
    os.kill(pid, signal.SIGKILL)
    until(lambda: made.listed(group)[0].get("instanceStatus") == "TERMINATED")
    assert "ended with 137" in journal(made.one(vm["name"]))
    made.gone(group)


def test_pages_only_where_the_group_says_so(made: Made) -> None:
    made.control("stockout", limit=0)
    group = made.group(3, listManagedInstancesResults="PAGINATED")
    until(lambda: len(made.listed(group)) == 3)
    assert len(made.listed(group, "?maxResults=2")) == 2
    assert len(made.listed(group, "?maxResults=2&pageToken=2")) == 1
    made.call("compute", "PATCH", group, {"listManagedInstancesResults": "PAGELESS"})
    assert len(made.listed(group, "?maxResults=2")) == 3
    made.call("compute", "POST", f"{group}/resize?size=1")
    until(lambda: len(made.listed(group)) == 1)
    made.gone(group)
    made.control("stockout", limit=None)


@pytest.mark.parametrize(
    ("link", "skip"),
    [("nonsense", True), ("zones/mars-a/instances/x", True), (f"zones/{project.REGION}-a/instances/x", False)],
)
def test_instances_that_are_none_fail_the_call(made: Made, link: str, skip: bool) -> None:
    group = made.group()
    body = {"instances": [link], "skipInstancesOnValidationError": skip}
    with pytest.raises(RestError) as refused:
        made.call("compute", "POST", f"{group}/deleteInstances", body)
    assert refused.value.code == 400
    made.gone(group)


@pytest.mark.parametrize(
    "fields",
    [
        {"autoHealingPolicies": [{"initialDelaySec": 60}]},
        {"standbyPolicy": {"mode": "SCALE_OUT_POOL"}},
        {"targetSizePolicy": {"mode": "BULK"}},
        {"versions": [{"name": "a"}, {"name": "b"}]},
    ],
)
def test_a_group_that_is_not_emulated_is_refused(made: Made, fields: dict[str, Any]) -> None:
    with pytest.raises(RestError, match="does not emulate"):
        made.group(**fields)


@pytest.mark.parametrize(
    ("scheduling", "text"),
    [
        (
            {"provisioningModel": "SPOT", "instanceTerminationAction": "STOP", "maxRunDuration": {"seconds": 9}},
            "DELETE",
        ),
        ({"provisioningModel": "STANDARD", "instanceTerminationAction": "STOP"}, "SPOT or a maxRunDuration"),
    ],
)
def test_a_template_that_a_group_does_not_take_is_refused(made: Made, scheduling: dict[str, Any], text: str) -> None:
    name = f"t-{text[:3].lower()}"
    body = {"name": name, "properties": {"machineType": "n2-standard-4", "scheduling": scheduling}}
    made.call("compute", "POST", f"{REGION}/instanceTemplates", body)
    with pytest.raises(RestError, match=text):
        made.group(template=f"{REGION}/instanceTemplates/{name}")


def test_an_autoscaler_that_is_not_emulated_is_refused(made: Made) -> None:
    group = made.group()
    with pytest.raises(RestError, match="cpuUtilization"):
        made.autoscaler(group, cpuUtilization={"utilizationTarget": 0.5})
    made.gone(group)


def test_what_names_something_that_is_not_there_is_refused_and_not_kept(made: Made) -> None:
    with pytest.raises(RestError, match="no such instance template"):
        made.group(template=f"{REGION}/instanceTemplates/none")
    group = made.group()
    with pytest.raises(RestError, match="no such instance template"):
        made.call("compute", "PATCH", group, {"versions": [{"instanceTemplate": f"{REGION}/instanceTemplates/none"}]})
    with pytest.raises(RestError, match="does not exist"):
        made.autoscaler(f"{REGION}/instanceGroupManagers/none")
    kept = [name for name in made.site.resources.names("compute/") if name.endswith("/none")]
    assert kept == []
    versions = made.call("compute", "GET", group)["versions"]
    assert "none" not in str(versions)
    made.gone(group)


def test_a_new_template_is_for_machines_to_come(made: Made) -> None:
    group = made.group(1)
    (old,) = made.running(group, 1)
    made.call("compute", "PATCH", group, {"versions": [{"instanceTemplate": made.template()}]})
    made.call("compute", "POST", f"{group}/resize?size=2")
    versions = {each["name"]: each["version"]["instanceTemplate"] for each in made.running(group, 2)}
    assert len(set(versions.values())) == 2
    assert versions[old["name"]] == old["version"]["instanceTemplate"]
    made.gone(group)


@pytest.mark.namespaces
def test_nothing_outlives_a_daemon_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.localcloud.waiting import until
from tests.localcloud.waiting import sleeping
from tests.localcloud.gcp.compute.vms import Site, cloud_config
site = Site(Path({str(tmp_path)!r}))
vm = site.vm(cloud_config("docker run --rm --network host --entrypoint sleep image 4646"))
until(lambda: [each for each in vm.docker.containers.values() if each.process])
print(vm._holder.process.pid, flush=True)
time.sleep(120)
"""
    daemon = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout
        holder = int(daemon.stdout.readline())
        until(lambda: len(sleeping(4646)) == 1)
    finally:
        daemon.kill()
        daemon.wait(300)
    until(lambda: not sleeping(4646) and not Path(f"/proc/{holder}").exists())


def machine(made: Made, name: str) -> Vm:
    return next(fleet.vms[name] for fleet in made.compute._groups.fleets.values() if name in fleet.vms)


def test_a_machine_reaches_the_apis_with_its_account(made: Made) -> None:
    made.control("settings", environment={"EXTRA": "given"})
    group = made.group(1)
    (vm,) = made.running(group, 1)
    made.control("settings", environment={})
    assert f"works as {vm['name']} given" in journal(made.one(vm["name"]))
    token = machine(made, vm["name"])._token()["access_token"]
    assert made.site.tokens.principal(token) == f"serviceAccount:{made.account}"
    url = f"{made.site.url}/compute/v1/{group}/listManagedInstances"
    request = urllib.request.Request(url, b"", {"Authorization": f"Bearer {token}"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=300)
    refused.value.close()
    assert refused.value.code == 403, "a worker has no rights on Compute"
    made.gone(group)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"compute/v1/{REGION}/instanceGroupManagers", 401),
        pytest.param("_localcloud/health", 404, marks=pytest.mark.namespaces),  # they keep the controls out of reach
    ],
)
def test_a_container_without_a_token_is_refused(made: Made, path: str, code: int) -> None:
    script = (
        "import os, urllib.request\n"
        f"try: urllib.request.urlopen(os.environ['GOOGLE_BASE_URL'][:-7] + {path!r})\n"
        "except urllib.error.HTTPError as error: print(error.code)\n"
    )
    group = made.group(1)
    (vm,) = made.running(group, 1)
    with tempfile.TemporaryFile() as output:
        description = {"argv": ["python3", "-c", script], "mounts": []}
        process, problem = machine(made, vm["name"]).contain(None, description, {}, output.fileno())
        assert (process.wait(300), problem) == (0, "")
        output.seek(0)
        assert output.read().decode() == f"{code}\n"
    made.gone(group)
