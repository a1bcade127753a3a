"""Why a job does not progress on GCP: the real client and the real reconciler, with localcloud's instance group and
autoscaler on virtual time. What this cannot prove: that Google words its reasons like this, or how late they are."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from components.services.pubsub.reconciler_function import main
from components.services.pubsub.reconciler_function.answers import iso
from components.services.pubsub.reconciler_function.cloud import Cloud
from localcloud.gcp.compute.autoscaler import Autoscaler
from localcloud.gcp.compute.capacity import NO_ADDRESS, QUOTA, STOCKOUT, Capacity, Limit
from localcloud.gcp.compute.group import Group
from localcloud.gcp.compute.managed import Managed, listed
from tests.components.test_gcp_reconciler_function import COMPUTE, SERIES, SETTINGS, UPLOAD, Answer
from tests.unit.google_fakes import FakeGoogle, gcp_descriptor, names_of
from tidemill import layout
from tidemill.client import Job, Pipeline
from tidemill.client.rounds import deliveries
from tidemill.client.watch.explain import read_facts
from tidemill.client.watch.observation import observe
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.errors import CloudError, StoreDeniedError
from tidemill.explain import Explanation
from tidemill.explain.judge import explain
from tidemill.fleet import FleetSettings
from tidemill.services.pubsub.backend import GcpPubSub
from tidemill.store import Store

GROUP = {"name": "fleet", "region": "regions/us-central1", "instanceTemplate": "template"}
TEMPLATE = {"machineType": "n2-standard-16", "scheduling": {"provisioningModel": "SPOT"}}
LATER = 700.0
MUCH_LATER = 4000.0


class Quiet:
    """A hypervisor whose machines do nothing."""

    def boot(self, vm: Managed) -> None:
        """Starts no guest."""

    preempt = discard = boot

    def shut_down(self, vm: Managed, seconds: float) -> None:
        """Ends no guest."""


class Rung:
    """A group with its autoscaler."""

    def __init__(self, mode: str) -> None:
        metric = {"metric": "backlog", "singleInstanceAssignment": 1}
        self.policy: dict[str, Any] = {
            "mode": mode, "maxNumReplicas": 4, "customMetricUtilizations": [metric], "stabilizationPeriodSec": 60,
        }  # fmt: skip
        self.capacity = Capacity()
        self.backlog: float | None = 2.0
        self.group = Group(lambda: GROUP, lambda url: TEMPLATE, self.capacity, Quiet(), chance=random.Random(1))
        self.scaler = Autoscaler(lambda: self.policy, self.group, lambda spec, now: self.backlog)


class World:
    """A pipeline on GCP: Pub/Sub and Monitoring in memory, and the reconciler over localcloud's groups."""

    def __init__(self, monkeypatch: Any) -> None:
        self.google = FakeGoogle()
        self.store = Store.open("memory://")
        described = gcp_descriptor()
        self.pipeline = Pipeline(
            described,
            self.store,
            GcpPubSub(described, self.store, GcpAccount(described, self.google.session(monkeypatch))),
        )
        self.names = names_of(described.queues["cpu"])
        self.rungs = {"spot-m": Rung("ONLY_SCALE_OUT"), "od-m": Rung("OFF")}
        self.spot = self.rungs["spot-m"]

    def submit(self, chunks: int = 2) -> Job:
        uris = [f"gs://raw/{n}" for n in range(chunks)]
        return self.pipeline.submit(["true"], uris, queue="cpu", name="tiles", chunk_size=1)

    def reconcile(self, seconds: float = 200.0) -> None:
        """Let time pass for the groups, and then let the reconciler run and report."""
        for step in range(int(seconds / 10)):
            for rung in self.rungs.values():
                rung.scaler.tick(self.google.now - seconds + 10 * step)
                rung.group.tick(self.google.now - seconds + 10 * step)
        cloud = Cloud("p", "r", "store", self, pause=lambda _: None)
        assert main.run(FleetSettings.parse(json.dumps(SETTINGS)), cloud) == []

    def request(self, method: str, url: str, **more: Any) -> Answer:
        """Answer a call of the reconciler."""
        return Answer(200, self._answer(method, url, more), self.google.now)

    def _answer(self, method: str, url: str, more: dict[str, Any]) -> dict[str, Any]:
        if url == SERIES:
            ends = [iso(self.google.now - 150 - 60 * number) for number in range(5)]
            return {"timeSeries": [{"points": [
                {"interval": {"endTime": end}, "value": {"int64Value": "2"}} for end in ends
            ]}]}  # fmt: skip
        if url == UPLOAD:
            self.store.put(more["params"]["name"], more["data"])
        if not url.startswith(COMPUTE):
            return {}
        return self._compute(method, url, more)

    def _compute(self, method: str, url: str, more: dict[str, Any]) -> dict[str, Any]:
        if method == "PATCH":
            self.rungs[more["params"]["autoscaler"].replace("-a", "-m")].policy |= more["json"]["autoscalingPolicy"]
            return {}
        kind, name, *call = url.removeprefix(COMPUTE).split("/")
        rung = self.rungs[name.replace("-a", "-m")]
        if kind == "autoscalers":
            return {"status": "ACTIVE", "statusDetails": rung.scaler.status(), "autoscalingPolicy": rung.policy}
        if call == ["listErrors"]:
            return {"items": [self._error(rung, each) for each in rung.group.errors]}
        if call == ["listManagedInstances"]:
            return {"managedInstances": [listed(vm, "p") for vm in rung.group.instances()]}
        return {"targetSize": rung.group.target}

    @staticmethod
    def _error(rung: Rung, error: dict[str, Any]) -> dict[str, Any]:
        details = error["instanceActionDetails"]
        vm = rung.group.get(details["instance"])
        assert vm
        return error | {
            "instanceActionDetails": details | {"instance": f"https://x/zones/{vm.zone}/instances/{vm.name}"}
        }

    def look(self, job: Job, later: float = 0.0) -> Explanation:
        facts = read_facts(observe(self.pipeline.site, job._watched.ledger, job.spec, consumption=False))
        return explain(replace(facts, now=facts.now + later))

    def headline(self, job: Job, later: float = 0.0) -> str:
        return f"{(found := self.look(job, later)).kind} {found.headline.code}"


@pytest.fixture
def world(monkeypatch: Any) -> World:
    return World(monkeypatch)


def test_a_healthy_start_is_well_and_then_waits(world: World) -> None:
    job = world.submit()
    assert world.headline(job) == "well L1"
    world.reconcile()
    found = world.look(job)
    assert (found.kind, found.unknown) == ("well", [])


@pytest.mark.parametrize("part", ["topic", "subscription"])
def test_a_topic_or_a_subscription_that_is_gone(world: World, part: str) -> None:
    job = world.submit()
    world.google.resources.pop(getattr(world.names, part))
    assert world.headline(job) == "act G1"


def test_a_submit_that_was_cut_off(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.setattr("tidemill.services.pubsub.backend.IN_FLIGHT", 1)
    world.google.refuse = lambda api, path: (
        (400, {"error": {"message": "no"}}) if path.endswith(":publish") and world.google.published else None
    )
    with pytest.raises(CloudError):
        world.submit(1001)
    found = world.look(world.pipeline.job("tiles"))
    assert (found.kind, found.headline.code) == ("act", "G2")
    assert found.headline.text.startswith("1 of 2 arrays were sent")


def off(world: World) -> None:
    world.spot.policy["mode"] = "OFF"


def no_metric(world: World) -> None:
    world.spot.backlog = None


def full(world: World) -> None:
    world.spot.backlog = 10.0


def limited(code: str) -> Any:
    def limit(world: World) -> None:
        world.spot.capacity.limits = [Limit(0, code)]

    return limit


def unhealthy(world: World) -> None:
    world.spot.scaler.healthy = False


def unknown(world: World) -> None:
    scaler: Any = world.spot.scaler
    scaler.status = lambda: [{"type": "SCALING_TARGET_DOES_NOT_EXIST", "message": "the group is gone"}]


@pytest.mark.parametrize(
    ("make", "now", "later", "much_later"),
    [
        (off, "act G3", "act G3", "act G3"),
        (no_metric, "turn G4", "act G4", "act G4"),
        (full, "turn G5", "turn G5", "turn G5"),
        (limited(STOCKOUT), "turn G6", "turn G6", "act G6"),
        (limited(QUOTA), "well L1", "act G7", "act G7"),
        (limited(NO_ADDRESS), "well L1", "act G8", "act G8"),
        (unhealthy, "well L1", "act G10", "act G10"),
        (unknown, "well L1", "act G17", "act G17"),
    ],
)
def test_what_the_reconciler_reports_of_the_machines(
    world: World, make: Any, now: str, later: str, much_later: str
) -> None:
    job = world.submit()
    make(world)
    world.reconcile()
    assert [world.headline(job, seconds) for seconds in (0.0, LATER, MUCH_LATER)] == [now, later, much_later]


def test_googles_own_words_follow_ours(world: World) -> None:
    job = world.submit()
    limited(NO_ADDRESS)(world)
    world.reconcile()
    assert "Google says: IP_SPACE_EXHAUSTED in us-central1-" in world.look(job, LATER).headline.text


def test_a_rung_that_is_closed_while_spot_is_short(world: World) -> None:
    job = world.submit()
    limited(STOCKOUT)(world)
    world.reconcile()
    assert "G12" in [cause.code for cause in world.look(job, LATER).causes]


def test_machines_that_cannot_run_the_worker(world: World) -> None:
    job = world.submit()
    for number in range(2):
        record = {"error": "trying\npull access denied", "at": "2026-11-22T10:00:00Z"}
        world.store.put(f"{layout.FLEET_ERRORS}/20261122T100000Z-m{number}.json", json.dumps(record).encode())
    found = world.look(job).headline
    assert (found.kind, found.code, "pull access denied" in found.text) == ("act", "G9", True)


def test_a_reconciler_that_is_late(world: World) -> None:
    job = world.submit()
    world.reconcile()
    world.google.now += 7200
    world.pipeline.site.backend("cpu").queue_states({"cpu": world.pipeline.descriptor.queues["cpu"]})
    assert world.headline(job) == "act G11"


def test_others_are_ahead(world: World) -> None:
    job = world.submit()
    world.google.now += 400
    world.google.points["cpu"] = [(world.google.now - 10, 42)]
    world.google.points["cpu/oldest"] = [(world.google.now - 10, 5000)]
    found = world.look(job).headline
    assert (found.kind, found.code) == ("turn", "G13")
    assert found.text.startswith("40 chunks of other jobs")


def test_dead_letters(world: World) -> None:
    job = world.submit()
    world.google.kill(world.names.subscription, job.id, [0, 1])
    found = world.look(job).headline
    assert (found.kind, found.code) == ("act", "G14")
    assert f"tidemill retry {job.id} --dead" in found.do


def test_messages_that_expired(world: World) -> None:
    job = world.submit()
    world.google.now += 40 * 86400
    world.pipeline.site.backend("cpu").queue_states({"cpu": world.pipeline.descriptor.queues["cpu"]})
    assert world.headline(job) == "act G15"


def test_messages_that_were_dropped_without_a_record(world: World) -> None:
    job = world.submit()
    world.google.now += 900
    world.google.points["cpu"] = [(world.google.now - 60 * number, 0) for number in range(10)]
    world.pipeline.site.backend("cpu").queue_states({"cpu": world.pipeline.descriptor.queues["cpu"]})
    assert world.headline(job) == "act G16"


@pytest.mark.parametrize("api", ["pubsub", "monitoring"])
def test_what_is_denied_is_unknown(world: World, api: str) -> None:
    job = world.submit()
    seen = observe(world.pipeline.site, job._watched.ledger, job.spec, consumption=False)
    world.google.refuse = lambda asked, path: (403, {"error": {"message": "no"}}) if asked == api else None
    found = explain(read_facts(seen))
    assert found.kind == "well"
    assert [each.what.split(".")[0] for each in found.unknown] == [api]
    assert {each.command for each in found.unknown} == {"pulumi stack output submitters"}


def test_records_that_may_not_be_read_are_unknown(world: World, monkeypatch: Any) -> None:
    job = world.submit()
    seen = observe(world.pipeline.site, job._watched.ledger, job.spec, consumption=False)

    def denied(name: str) -> Any:
        raise StoreDeniedError("GET is denied.")

    monkeypatch.setattr(world.store, "find", denied)
    found = explain(read_facts(seen))
    assert (found.kind, [each.what for each in found.unknown]) == ("well", ["the fleet's records"])
