"""The rules of explain, on facts alone and on a job in memory, and the page of its causes. What this cannot prove: that
a cloud's facts are read right (tests/localcloud/aws/test_explain.py, test_explain_gcp.py)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.unit.client_fakes import outcome, pipeline, ran, uris
from tidemill import layout
from tidemill.cli import main
from tidemill.cli.documents import bundle
from tidemill.client import Job, Pipeline
from tidemill.client.rounds import deliveries
from tidemill.client.watch import watched
from tidemill.client.watch.explain import read_facts
from tidemill.client.watch.live import Lines
from tidemill.client.watch.observation import observe
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CloudError
from tidemill.explain import page
from tidemill.explain.answer import Unseen
from tidemill.explain.causes import BY_CODE, CAUSES, GONE, KINDS
from tidemill.explain.facts import Facts, FleetFacts, JobFacts, Straggler
from tidemill.explain.judge import CauseHistory, explain
from tidemill.fleet import GroupReport, MachineFailure, ScalerNote
from tidemill.ledger import Ledger
from tidemill.services.batch.model import AwsFacts, BatchQueue, Environment, Quota, Try, Turn
from tidemill.services.pubsub.model import GcpFacts, PubSubQueue
from tidemill.services.pubsub.rules import EXPIRED

ROOT = Path(__file__).resolve().parents[4]
NOW = 1_800_000_000.0
OLD = NOW - 5000
ARN = "arn:aws:batch:us-west-2:123456789012:job-queue/cpu"


def test_the_page_is_that_of_the_table() -> None:
    text = (ROOT / "docs" / "explain.md").read_text()
    assert text == page.page(), "run: python -m tidemill.explain.page docs/explain.md"
    assert all(f'<a id="{cause.docs.partition("#")[2]}">' in text for cause in CAUSES)


def test_codes_are_unique_and_classes_known() -> None:
    assert len({cause.code for cause in CAUSES}) == len(CAUSES) == len(BY_CODE)
    assert {cause.kind for cause in CAUSES} <= set(KINDS)


# ---- a job in memory -------------------------------------------------------------------------------------------------


class World:
    """A job of ten chunks in memory."""

    def __init__(self) -> None:
        self.target, self.backend = pipeline(max_spec=SPEC_VERSION)
        self.job: Job = self.target.submit(["true"], uris(100), queue="cpu", name="tiles", chunk_size=10)
        self.ledger = Ledger(self.target.store, self.job.id)

    def commit(self, chunks: Any, reason: str = "", failed: int = 10) -> None:
        """Commit chunks; so many items of each fail for a reason."""
        for chunk in chunks:
            items = [outcome(n, f"s3://raw/{n}.jpg", False) for n in range(10 * chunk, 10 * chunk + 10)]
            if reason:
                bad = [replace(one, status="failed", reason=reason, error=f"{reason}: no") for one in items[:failed]]
                items = bad + items[failed:]
            self.ledger.chunk(0, chunk).commit("a", items, run=ran())
            self.backend.arrays[0].children[chunk] = "succeeded"

    def running(self, *chunks: int) -> None:
        for chunk in chunks:
            self.backend.arrays[0].children[chunk] = "running"

    def facts(self, later: float = 0.0) -> Facts:
        facts = read_facts(observe(self.target.site, self.job._watched.ledger, self.job.spec, consumption=False))
        return replace(facts, now=facts.now + later)

    def headline(self, later: float = 0.0) -> str:
        found = explain(self.facts(later))
        return f"{found.kind} {found.headline.code}"

    def codes(self, later: float = 0.0) -> list[str]:
        return [cause.code for cause in explain(self.facts(later)).causes]


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_that_was_just_sent(world: World) -> None:
    assert world.headline() == "well L1"
    assert world.headline(400) == "turn L13"


def test_a_job_that_progresses_and_ends(world: World) -> None:
    world.commit(range(3))
    assert world.headline() == "well L10"
    world.commit(range(3, 10))
    assert world.headline() == "well L11"


def test_a_program_that_does_not_start(world: World) -> None:
    world.ledger.start_failed(0, "ERROR: no matching distribution for torch==9")
    found = explain(world.facts()).headline
    assert (found.kind, found.code, "torch==9" in found.text) == ("act", "L2", True)


def test_most_items_fail(world: World) -> None:
    world.commit(range(3), "exit", failed=6)
    found = explain(world.facts()).headline
    assert (found.kind, found.code) == ("act", "L3")
    assert "18 of the newest 30 outcomes" in found.text
    assert found.evidence == ["the most common: exit: no"]


def test_items_that_run_out_of_memory(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Python a keyword is advised, on the command line its flag."""
    world.commit(range(3), "memory", failed=2)
    assert world.headline() == "act L4"
    mib = world.job.spec.resources.memory_mib
    assert world.job.explain().headline.do == (
        f"submit with `memory_mib={2 * mib}`, or for single items `memory_max_mib={8 * mib}`"
    )
    monkeypatch.setattr(Pipeline, "load", classmethod(lambda cls, uri: world.target))
    monkeypatch.setenv("TIDEMILL_PIPELINE", "memory://x/pipeline.json")
    for option in ([], ["--json"]):
        assert main(["explain", world.job.id, *option]) == 1
        assert f"submit with --memory {2 * mib}, or for single items --memory-max {8 * mib}" in capsys.readouterr().out


def test_items_that_may_have_more_memory_wait_for_somebody_who_waits(world: World) -> None:
    mib = world.job.spec.resources.memory_mib
    grown = world.job.spec.model_copy(update={"memory_max_mib": 4 * mib})
    world.job = Job(world.target.site, grown)
    world.commit(range(4), "memory", failed=6)
    assert world.headline() == "well L10"
    assert world.codes()[1] == "L4"
    assert not world.job.status().note
    world.commit(range(4, 10))
    found = world.job.explain().headline
    assert (found.kind, found.code, found.do) == ("act", "L4", f"tidemill wait {world.job.id}")
    assert f"may have up to {4 * mib} MiB: `tidemill wait {world.job.id}` sends them" in (world.job.status().note or "")
    # At their most there is nothing to wait for.
    world.job = Job(world.target.site, grown.model_copy(update={"memory_max_mib": mib}))
    assert world.codes() == ["L11"]
    assert not world.job.status().note


def test_workers_that_die_with_the_same_chunk(world: World) -> None:
    for attempt in "abc":
        world.ledger.chunk(0, 0).marker(attempt, 1, {}).write([4])
    world.running(0)
    assert world.headline(700) == "act L4"


def test_inputs_that_may_not_be_read(world: World) -> None:
    world.commit(range(3), "input")
    assert world.codes()[:2] == ["L7", "L3"]


def test_a_worker_whose_store_does_not_answer(world: World) -> None:
    world.ledger.chunk(0, 0).marker("a", 1, {}).ended("store")
    assert world.headline(700) == "act L7"


def test_a_chunk_that_holds_up_the_end(world: World) -> None:
    world.commit(range(9))
    world.ledger.chunk(0, 9).marker("a", 1, {"machine": "i-1"}).write([97])
    world.running(9)
    found = explain(world.facts(400)).headline
    assert (found.kind, found.code) == ("act", "L5")
    assert found.do.endswith("--item 97")
    assert "on i-1" in found.evidence


def test_reclaims_that_take_most_of_the_work(world: World) -> None:
    world.commit(range(3))
    for chunk in range(3, 9):
        world.target.store.put(layout.drained(layout.ChunkKey(world.job.id, 0, chunk), "a"), b"")
    assert world.headline() == "act L6"


def test_slower_than_before(world: World) -> None:
    world.commit(range(9))
    seen = observe(world.target.site, world.job._watched.ledger, world.job.spec, consumption=False)
    ages = [700, 710, 720, 1300, 1310, 1900, 1910, 2500, 2510]
    done = {0: {chunk: at - age for (chunk, at), age in zip(seen.listing.done[0].items(), ages, strict=True)}}
    facts = read_facts(replace(seen, listing=replace(seen.listing, done=done)))
    assert "L8" in [cause.code for cause in explain(facts).causes]


def test_a_job_that_was_cancelled_or_reached_its_limit(world: World) -> None:
    world.job.cancel("the wrong list")
    found = explain(world.facts()).headline
    assert (found.kind, found.code, found.text) == ("act", "L9", "cancelled by ada: the wrong list")


def test_a_job_whose_containers_left_no_record(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    world.backend.arrays.clear()
    assert world.headline() == "act L9"


def test_a_job_that_waits_for_another() -> None:
    target, _ = pipeline(max_spec=SPEC_VERSION)
    first = target.submit(["true"], uris(4), queue="cpu", name="one")
    second = target.submit(["true"], uris(4), queue="cpu", name="two", after=[first.id])
    found = second.explain()
    assert (found.kind, found.headline.code) == ("turn", "L12")
    assert first.id in found.headline.text


# ---- the rules -------------------------------------------------------------------------------------------------------


def aws(**changes: Any) -> AwsFacts:
    there = Environment("ce-1", "ENABLED", "VALID", "", "spot", 0, 512)
    return replace(AwsFacts(BatchQueue(ARN, "ENABLED", "VALID", "", [there]), turn=Turn(0, 0, True, 0)), **changes)


def job(**changes: Any) -> JobFacts:
    return replace(JobFacts("tiles", "cpu", items=100, began=OLD, waiting=10), **changes)


def environments(*some: Environment) -> dict[str, Any]:
    return {"queue": BatchQueue(ARN, "ENABLED", "VALID", "", list(some))}


WANTS = Environment("ce-1", "ENABLED", "VALID", "", "spot", 64, 512)
FULL = replace(WANTS, wanted=512)
SHUT = Environment("ce-2", "DISABLED", "VALID")
FAILING = [Try(127, "", "Essential container in task exited", "c", OLD + 1)] * 2
HOLDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "A1": ({}, {"queue": BatchQueue(ARN, "DISABLED", "VALID", "", [WANTS])}),
    "A2": ({}, {"queue": BatchQueue(ARN, "ENABLED", "INVALID", "no role", [WANTS])}),
    "A3": ({}, environments(SHUT)),
    "A16": ({}, environments(SHUT, replace(WANTS, wanted=0))),
    "A4": ({"cpus": 1024}, {}),
    "A5": ({"fits": False}, {}),
    "A7": ({}, {"reasons": ["ACTION_REQUIRED - CE(s) associated with the job queue are invalid."]}),
    "A6": ({}, {"reasons": ["CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - no c7i.large"]}),
    "A18": ({}, {"reasons": ["SOMETHING:NEW - who knows"]}),
    "A10": ({}, {"quotas": [Quota("spot", "standard", "L-1", "us-west-2", 4.0, 512, 8)]}),
    "A9": ({}, {"turn": Turn(7, 100, True, 40, {"bob": 40})}),
    "A12": ({}, {"tries": [Try(None, "CannotPullContainerError: no", "Task failed", "c", OLD + 1)] * 2}),
    "A13": ({}, {"tries": FAILING}),
    "A14": ({}, {"tries": [Try(72, "", "Essential", "c", OLD + 1)] * 2}),
    "L2": ({"start_failures": 2, "start_error": "no torch"}, {}),
    "L3": ({"recent": (200, 150), "worst": "ValueError"}, {}),
    "L4": ({"reasons": {"memory": 5}}, {}),
    "L5": ({"straggler": Straggler(9, (97,), NOW - 4000, "i-1", 100.0)}, {}),
    "L6": ({"drained": 50, "done": 50}, {}),
    "L7": ({"stopped": ["store"]}, {}),
    "L8": ({"speed": (1.0, 10.0)}, {}),
}


def both(first: str, second: str) -> Facts:
    """Facts under which two causes hold."""
    ours: dict[str, Any] = {}
    clouds: dict[str, Any] = {}
    for code in (first, second):
        of_job, of_cloud = HOLDS[code]
        ours |= of_job
        for key, value in of_cloud.items():
            clouds[key] = [*clouds[key], *value] if key in clouds and isinstance(value, list) else value
    return Facts(NOW, job(**ours), aws(**clouds))


def test_containers_of_an_earlier_round_are_history() -> None:
    facts = both("A12", "A12")
    resumed = replace(facts, job=replace(facts.job, began=NOW - 400))
    assert "A12" not in [cause.code for cause in explain(resumed).causes]


def test_a_quota_that_stops_one_kind_of_machines_does_not_stop_the_others() -> None:
    small, large = (
        Quota("spot", kind, "L-1", "us-west-2", limit, 512, 8) for kind, limit in (("g", 0.0), ("p", 600.0))
    )
    young = job(began=NOW - 60)
    assert explain(Facts(NOW, young, aws(quotas=[small, large]))).headline.code == "L1"
    assert explain(Facts(NOW, young, aws(quotas=[small]))).headline.code == "A10"


@pytest.mark.parametrize("code", HOLDS)
def test_each_cause_alone_is_the_headline(code: str) -> None:
    found = explain(both(code, code))
    assert found.headline.code == code
    assert found.headline.do


def test_of_two_causes_the_earlier_one_that_needs_somebody_is_the_headline() -> None:
    """Fifty random pairs. The queue of one pair is one queue, so two causes about it are not combined."""
    chance, seen = random.Random(52), 0
    while seen < 50:
        first, second = chance.sample(sorted(HOLDS), 2)
        if HOLDS[first][1].keys() & HOLDS[second][1].keys() & {"queue"}:
            continue
        seen += 1
        found = explain(both(first, second))
        kinds = {cause.code: cause.kind for cause in found.causes}
        assert kinds.keys() >= {first, second}, (first, second)
        wanted = min((first, second), key=lambda code: (kinds[code] == "turn", BY_CODE[code][0]))
        assert found.headline.code == wanted, (first, second, list(kinds))


def test_a_reason_that_may_pass_counts_when_two_looks_have_seen_it() -> None:
    """While another container starts, ten minutes of waiting mean nothing."""
    facts = replace(both("A18", "A18"), job=job(active=1))
    looks = CauseHistory()
    kinds = [explain(replace(facts, now=NOW + seconds), looks).kind for seconds in (0, 30, 61)]
    assert kinds == ["turn", "turn", "act"]
    gone = replace(facts, cloud=aws(), now=NOW + 70)
    explain(gone, looks)
    assert explain(replace(facts, now=NOW + 80), looks).kind == "turn"


def test_nothing_that_may_pass_counts_in_the_first_five_minutes() -> None:
    for code, cause in ((code, BY_CODE[code][1]) for code in HOLDS):
        facts = both(code, code)
        young = replace(facts, job=replace(facts.job, began=NOW - 200))
        sure = code in ("A4", "A5", "A10")
        assert not cause.passing or sure or explain(young).kind in ("well", "turn"), code


GCP = GcpFacts(PubSubQueue("t", "s", True, "t"))


@pytest.mark.parametrize(
    ("group", "fleet", "ours", "code"),
    [
        (GroupReport(2, 0, notes=[ScalerNote("MODE_OFF", "off")]), {}, {}, "G3"),
        (GroupReport(2, 0, notes=[ScalerNote("NOT_ENOUGH_QUOTA_AVAILABLE", "no")]), {}, {}, "G7"),
        (GroupReport(2, 0, notes=[ScalerNote("REGION_RESOURCE_STOCKOUT", "no")]), {}, {}, "G6"),
        (GroupReport(2, 0, failures=[MachineFailure("PERMISSIONS_ERROR", "no")]), {}, {}, "G8"),
        (GroupReport(), {"late": "the reconciler has not run since noon"}, {}, "G11"),
        (GroupReport(), {"report_at": None, "groups": ()}, {}, "G11"),
        (GroupReport(unheard=2), {"broken": 3, "errors": ["m: no driver"]}, {}, "G9"),
        (GroupReport(), {}, {"lost": 2, "sent": (1, 3)}, "G2"),
        (GroupReport(), {}, {"lost": 2, "dead": 2}, "G14"),
        (GroupReport(), {}, {"lost": 2, "lost_reason": EXPIRED}, "G15"),
        (GroupReport(), {}, {"lost": 2, "lost_reason": GONE}, "G16"),
    ],
)
def test_causes_of_gcp(group: GroupReport, fleet: dict[str, Any], ours: dict[str, Any], code: str) -> None:
    seen = replace(FleetFacts(NOW, groups=[("spot", group)]), **fleet)
    assert explain(Facts(NOW, job(**ours), GCP, seen)).headline.code == code


HEALTHY: tuple[Callable[[float], Facts], ...] = (
    # AWS: what localcloud's Batch shows while it scales from zero, from the submit to the first record.
    lambda at: Facts(at, job(began=NOW), aws(reasons=["MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - cannot meet"])),
    lambda at: Facts(at, job(began=NOW), aws(**environments(WANTS))),
    lambda at: Facts(at, job(began=NOW, active=4), aws(**environments(FULL), turn=Turn(0, 10, True, 4, {"ada": 4}))),
    # GCP: no metric yet, then machines that boot.
    lambda at: Facts(at, job(began=NOW), GCP, None),
    lambda at: Facts(at, job(began=NOW), GCP, FleetFacts(at, groups=[("spot", GroupReport(0, 0, notes=[
        ScalerNote("MISSING_CUSTOM_METRIC_DATA_POINTS", "none"), ScalerNote("MODE_ONLY_SCALE_OUT", "adds only")
    ]))])),
)  # fmt: skip


@pytest.mark.parametrize("start", range(len(HEALTHY)))
@pytest.mark.parametrize("seconds", [0.0, 60.0, 150.0, 280.0])
def test_a_healthy_cold_start_asks_for_nobody(start: int, seconds: float) -> None:
    """Twenty of them: five recorded states, each at four moments."""
    found = explain(HEALTHY[start](NOW + seconds))
    assert found.kind in ("well", "turn")
    assert found.exit_code == 0


def test_what_a_cloud_says_cannot_steer_a_terminal() -> None:
    facts = Facts(NOW, job(), aws(reasons=["NEW \x1b[31m\u202ered\nand more"]))
    text = explain(facts).headline.text
    assert text.isprintable()
    assert "and more" in text


# ---- status, wait and submit -----------------------------------------------------------------------------------------


def test_status_and_wait_say_why_when_nothing_was_committed_for_five_minutes(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    later = time.time() + watched.STILL_SECONDS + 1
    monkeypatch.setattr(world.backend, "now", lambda: later)
    assert world.job.status(running=True).explained is None
    world.job._watched = watched.WatchedJob(world.target.site, world.job.spec)
    world.ledger.start_failed(0, "no torch")
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: later)
        patch.setattr(world.backend, "now", lambda: later - watched.STILL_SECONDS)
        assert world.job.status(running=True).explained is None, "this machine's clock is ahead, the cloud's is not"
    status = world.job.status(running=True)
    assert status.explained
    assert status.explained.code == "L2"
    assert str(status.facts()["why"]).startswith("act (L2): the program did not start once")
    shown = Lines("tiles")
    shown(world.job.status(running=True))
    assert "act (L2): the program did not start once" in capsys.readouterr().err
    world.commit(range(10))
    assert world.job.status(running=True).explained is None


def test_wait_asks_why_once_a_minute(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "STILL_SECONDS", -1.0)
    asked: list[int] = []
    facts = world.backend.facts
    monkeypatch.setattr(world.backend, "facts", lambda *given: asked.append(1) or facts(*given))
    for _ in range(5):
        world.job.status(running=True)
    assert len(asked) == 1


def test_a_cloud_that_does_not_answer_why_leaves_the_status_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "STILL_SECONDS", -1.0)

    def refuse(*given: Any) -> Any:
        raise CloudError("batch:ListJobs is denied (no).")

    monkeypatch.setattr(world.backend, "facts", refuse)
    found = explain(world.facts())
    assert [each.reason for each in found.unknown] == ["batch:ListJobs is denied (no)"]
    assert world.job.status(running=True).explained is None


def test_a_submit_says_what_is_known_to_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    target, backend = pipeline(max_spec=SPEC_VERSION)
    monkeypatch.setattr(backend, "queue_facts", lambda queue: (AwsFacts(HOLDS["A3"][1]["queue"]), []))
    said: list[str] = []
    target.submit(["true"], uris(2), queue="cpu", log=said.append)
    assert [line for line in said if "no machine can start: ce-2 is disabled" in line]


def test_the_command(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Pipeline, "load", classmethod(lambda cls, uri: world.target))
    unseen = [Unseen("batch:GetJobQueueSnapshot", "it is denied", "pulumi stack output | grep submitter")]
    tries = AwsFacts(tries=HOLDS["A12"][1]["tries"])
    monkeypatch.setattr(world.backend, "facts", lambda *given: (replace(tries, tries=HOLDS["A12"][1]["tries"]), unseen))
    monkeypatch.setenv("TIDEMILL_PIPELINE", "memory://x/pipeline.json")
    assert main(["explain", world.job.id]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("act (A12): the image cannot be pulled: CannotPullContainerError: no")
    assert "   the stack's owner: push the image, or give the role access" in lines
    assert "docs/explain.md#a12" in lines[3]
    assert lines[-1].startswith("unknown: may not see batch:GetJobQueueSnapshot: it is denied; the stack's owner types")
    assert main(["explain", world.job.id, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["causes"][0]["code"] == "A12"
    jsonschema.validate(document, {**bundle(), "$ref": "#/$defs/explain"})
