"""The reconciler's function against answers in Google's shape. The reference documents that Google answers so."""

import json
import time
from email.utils import formatdate
from typing import Any

import pytest

from components.services.pubsub.reconciler_function import main
from components.services.pubsub.reconciler_function.answers import iso
from components.services.pubsub.reconciler_function.cloud import ERROR_PAGES, Cloud
from tests.mutants import reconciler
from tidemill.fleet import FleetSettings

COMPUTE = "https://compute.googleapis.com/compute/v1/projects/p/regions/r/"
PUBSUB = "https://pubsub.googleapis.com/v1/projects/p/subscriptions/sub:"
SERIES = "https://monitoring.googleapis.com/v3/projects/p/timeSeries"
OBJECTS = "https://storage.googleapis.com/storage/v1/b/store/o"
UPLOAD = "https://storage.googleapis.com/upload/storage/v1/b/store/o"
ZONE = "https://www.googleapis.com/compute/v1/projects/p/zones/r-a/instances/"
SETTINGS = {
    "project": "p",
    "region": "r",
    "bucket": "store",
    "period_seconds": 120,
    "queues": [
        {
            "name": "cpu",
            "subscription": "sub",
            "topic": "projects/p/topics/t",
            "groups": [
                {"market": "spot", "manager": "spot-m", "autoscaler": "spot-a", "per_machine": 4, "minimum": 0},
                {"market": "on_demand", "manager": "od-m", "autoscaler": "od-a", "per_machine": 4, "minimum": 0},
            ],
        }
    ],
}


class Answer:
    def __init__(self, code: int, document: Any, at: float) -> None:
        self.status_code, self._document = code, document
        self.headers = {"Date": formatdate(at, usegmt=True)}
        self.text = document if isinstance(document, str) else json.dumps(document)

    def json(self) -> Any:
        if isinstance(self._document, str):
            raise ValueError("no JSON")
        return self._document


class Google:
    """A fleet that answers like Google's APIs, on its own clock; it records every call."""

    def __init__(self, now: float | None = None) -> None:
        self.now = time.time() if now is None else now
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.machines: dict[str, list[dict[str, Any]]] = {"spot-m": [], "od-m": []}
        self.errors: dict[str, list[dict[str, Any]]] = {"spot-m": [], "od-m": []}
        self.modes = {"spot-a": "ONLY_SCALE_OUT", "od-a": "OFF"}
        self.samples: list[list[float]] = [[0, 0, 0, 0, 0]]
        self.records: list[dict[str, Any]] = []
        self.clock = 0.0
        self.broken: dict[str, list[Any]] = {}
        self.page = 500
        self.slow, self.slow_part = 0.0, ""

    def request(self, method: str, url: str, **more: Any) -> Answer:
        assert more.pop("timeout") > 0
        self.calls.append((method, url, more))
        for part, failures in self.broken.items():
            if part in url and failures:
                failure = failures[0] if len(failures) == 1 else failures.pop(0)
                if isinstance(failure, Exception):
                    raise failure
                if failure is not None:
                    code, document = failure
                    return Answer(code, document, self.now)
        answer = {} if url.startswith(PUBSUB) else self._answer(method, url, more)
        took = self.slow if self.slow_part in url else 0.0
        self.now += took
        self.clock += took
        return Answer(200, answer, self.now - took)

    def _answer(self, method: str, url: str, more: dict[str, Any]) -> dict[str, Any]:
        if url == SERIES:
            return {"timeSeries": [self._series(values) for values in self.samples]}
        if url in (UPLOAD, OBJECTS):
            return self._objects(**more["params"]) if method == "GET" else {}
        path = url.removeprefix(COMPUTE).split("/")
        if path[0] == "autoscalers":
            return {"autoscalingPolicy": {"mode": self.modes[path[1]], "maxNumReplicas": 9}} if path[1:] else {}
        if len(path) == 2:
            return {"targetSize": len(self.machines[path[1]])}
        if path[2] == "deleteInstances":
            return {"status": "RUNNING"}
        assert (path[2], method) in (("listErrors", "GET"), ("listManagedInstances", "POST"))
        key, found = ("items", self.errors) if path[2] == "listErrors" else ("managedInstances", self.machines)
        start = int(more["params"].get("pageToken", 0))
        rest = found[path[1]][start:]
        token = {"nextPageToken": str(start + self.page)} if len(rest) > self.page else {}
        return {key: rest[: self.page], **token}

    def _objects(self, prefix: str, fields: str, startOffset: str = "", pageToken: str = "") -> dict[str, Any]:  # noqa: N803
        assert fields.removesuffix(",nextPageToken") in (
            "items(name,timeCreated)",
            "items(name,generation)",
            "items(name)",
        )
        names = sorted(self.records, key=lambda each: each["name"])
        found = [each for each in names if each["name"].startswith(prefix) and each["name"] >= startOffset]
        start = int(pageToken or 0)
        token = {"nextPageToken": str(start + self.page)} if len(found) > start + self.page else {}
        return {"items": found[start : start + self.page], **token}

    def _series(self, values: list[float]) -> dict[str, Any]:
        ends = [iso(self.now - 150 - 60 * number) for number in range(len(values))]
        return {
            "points": [
                {"interval": {"endTime": end}, "value": {"int64Value": str(int(value))}}
                for end, value in zip(ends, values, strict=True)
            ]
        }

    def made(self, method: str, part: str) -> list[dict[str, Any]]:
        return [more for verb, url, more in self.calls if verb == method and part in url]

    @property
    def changes(self) -> list[str]:
        return [
            url.removeprefix(COMPUTE) for _, url, more in self.calls if "json" in more and not url.startswith(PUBSUB)
        ]

    @property
    def removed(self) -> list[str]:
        return [name for more in self.made("POST", "deleteInstances") for name in more["json"]["instances"]]

    @property
    def report(self) -> dict[str, Any]:
        (written,) = [more for more in self.made("POST", UPLOAD) if more["params"]["name"] == "fleet/reconciler.json"]
        return json.loads(written["data"])


def listed(name: str, status: str | None = None, action: str = "NONE", code: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"instance": ZONE + name, "currentAction": action}
    if status:
        found["instanceStatus"] = status
    if code:
        found["lastAttempt"] = {"errors": {"errors": [{"code": code, "message": "none left"}]}}
    return found


def error(name: str, code: str, at: float, action: str = "CREATING") -> dict[str, Any]:
    return {
        "error": {"code": code, "message": "none left"},
        "timestamp": iso(at),
        "instanceActionDetails": {"instance": ZONE + name, "action": action},
    }


def note(kind: str, machine: str, at: float) -> dict[str, Any]:
    stamp = time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime(at)) if kind == "errors" else ""
    end = ".json" if kind == "errors" else ""
    return {"name": f"fleet/{kind}/{stamp}{machine}{end}", "timeCreated": iso(at)}


def run(google: Google, settings: dict[str, Any] | None = None) -> list[str]:
    cloud = Cloud("p", "r", "store", google, pause=lambda _: None, clock=lambda: google.clock)
    return main.run(FleetSettings.parse(json.dumps(settings or SETTINGS)), cloud)


def named(*names: str) -> list[str]:
    return [f"zones/r-a/instances/{name}" for name in names]


def test_what_is_off_or_wanted_for_nothing_is_removed_by_zone_and_name():
    google = Google()
    google.machines["spot-m"] = [
        listed("off", "TERMINATED"), listed("busy", "RUNNING"), listed("never", action="CREATING")
    ]  # fmt: skip
    assert run(google) == []
    assert google.removed == named("off", "never")
    assert all(more["json"]["skipInstancesOnValidationError"] for more in google.made("POST", "deleteInstances"))
    assert set(google.changes) == {"instanceGroupManagers/spot-m/deleteInstances"}


def test_a_thousand_machines_a_call_and_every_page_is_read():
    google = Google()
    google.page = 300
    google.machines["spot-m"] = [listed(f"m{number:04}", "STOPPED") for number in range(1100)]
    assert run(google) == []
    assert [len(more["json"]["instances"]) for more in google.made("POST", "deleteInstances")] == [1000, 100]
    assert google.removed == named(*(f"m{number:04}" for number in range(1100)))


def test_machines_are_read_before_the_backlog():
    """The backlog is then no older than the machines it wanted, and a fresh job is never taken for an empty queue."""
    google = Google()
    run(google)
    urls = [url for _, url, _ in google.calls]
    last_list = max(number for number, url in enumerate(urls) if url.endswith("listManagedInstances"))
    assert urls.index(SERIES) > last_list


def test_idle_check_races_with_new_work(monkeypatch: pytest.MonkeyPatch):
    """github-aws-runners 5085: a delayed run removes nothing that could have come up meanwhile."""

    def removed() -> list[str]:
        google = Google()
        google.machines["spot-m"] = [listed("off", "TERMINATED"), listed("never", action="CREATING")]
        google.slow, google.slow_part = 21.0, SERIES
        assert run(google) == []
        return google.removed

    assert removed() == named("off")
    reconciler.work_arrives_late(monkeypatch)
    assert removed() == named("off", "never")


def test_a_stockout_opens_the_rung_and_nothing_else_of_its_autoscaler_is_written():
    google = Google()
    google.samples = [[900] * 5]
    google.machines["spot-m"] = [
        listed("up", "RUNNING"), listed("never", action="CREATING", code="ZONE_RESOURCE_POOL_EXHAUSTED")
    ]  # fmt: skip
    assert run(google) == []
    (patch,) = google.made("PATCH", "autoscalers")
    assert patch == {"params": {"autoscaler": "od-a"}, "json": {"autoscalingPolicy": {"mode": "ONLY_SCALE_OUT"}}}
    assert google.report["queues"]["cpu"]["decisions"] == ["open on_demand: spot is in stockout and work is waiting"]
    assert google.report["queues"]["cpu"]["groups"]["spot"]["stockout"] is True


def test_the_rung_is_closed_when_the_work_is_done():
    google = Google()
    google.modes["od-a"] = "ONLY_SCALE_OUT"
    google.machines["od-m"] = [listed("done", "TERMINATED"), listed("never", action="CREATING")]
    assert run(google) == []
    (patch,) = google.made("PATCH", "autoscalers")
    assert patch["json"] == {"autoscalingPolicy": {"mode": "OFF"}}
    assert google.removed == named("done", "never")
    assert google.changes[0] == "autoscalers"


def test_errors_of_the_group_say_since_when_a_machine_cannot_be_created():
    google = Google()
    google.samples = [[900] * 5]
    google.machines["spot-m"] = [listed("late", action="CREATING"), listed("early", action="CREATING")]
    google.errors["spot-m"] = [
        error("late", "QUOTA_EXCEEDED", google.now - 1300),
        error("late", "QUOTA_EXCEEDED", google.now - 60),
        error("early", "QUOTA_EXCEEDED", google.now - 60),
        error("early", "INTERNAL", google.now - 9000, action="DELETING"),
    ]
    assert run(google) == []
    assert google.removed == named("late")
    assert google.report["queues"]["cpu"]["groups"]["spot"]["errors"] == ["QUOTA_EXCEEDED: none left"]
    assert google.report["queues"]["cpu"]["groups"]["spot"]["quotas"] == ["QUOTA_EXCEEDED: none left"]


def test_a_dry_market_that_nothing_is_wanted_of_is_not_reported():
    google = Google()
    google.errors["spot-m"] = [error("gone", "ZONE_RESOURCE_POOL_EXHAUSTED", google.now - 60)]
    run(google)
    assert google.report["queues"]["cpu"]["groups"]["spot"]["stockout"] is False


def test_an_old_stockout_is_no_stockout():
    google = Google()
    google.samples = [[900] * 5]
    google.machines["spot-m"] = [listed("never", action="CREATING")]
    google.errors["spot-m"] = [error("gone", "ZONE_RESOURCE_POOL_EXHAUSTED", google.now - 1000)]
    assert run(google) == []
    assert google.changes == []


def test_a_machine_that_could_not_run_its_worker_holds_its_place():
    google = Google()
    google.samples = [[900] * 5]
    google.machines["spot-m"] = [listed("new", "TERMINATED"), listed("old", "TERMINATED"), listed("x", "TERMINATED")]
    google.machines["spot-m"].append(listed("before", "TERMINATED"))
    google.records = [
        note("errors", "new", google.now - 100),
        note("errors", "old", google.now - 1000),
        # The format of an earlier release's host.
        {"name": "fleet/errors/before.json", "timeCreated": iso(google.now - 100)},
    ]
    assert run(google) == []
    assert google.removed == named("old", "x")


def test_old_error_records_are_not_listed():
    """A queue that cannot work leaves tens of thousands of them within a week."""
    google = gone()
    google.page = 1000
    google.records = [note("errors", f"m{number}", google.now - 3600 - number) for number in range(20_000)]
    assert run(google) == []
    assert [more["params"]["prefix"] for more in google.made("GET", OBJECTS)] == [
        "fleet/errors/",
        "fleet/alive/",
        "fleet/held/",
    ]


@pytest.mark.parametrize(("seconds", "removed"), [(1750, False), (1801, True)])
def test_a_machine_whose_worker_is_silent_is_removed(seconds: float, removed: bool):
    google = Google()
    google.samples = [[900] * 5]
    google.machines["spot-m"] = [listed(name, "RUNNING") for name in ("frozen", "alive", "silent-since-ever")]
    google.records = [note("alive", "frozen", google.now - seconds), note("alive", "alive", google.now - 200)]
    google.slow = 0.5
    assert run(google) == []
    assert google.removed == (named("frozen") if removed else [])
    decisions = google.report["queues"]["cpu"]["decisions"]
    assert decisions == (["remove 1 spot machines: silent for half an hour"] if removed else [])


def test_errors_are_read_first_and_not_for_ever():
    """In a stockout they are most frequent, and missing machines are removed only within seconds of their listing."""
    google = gone()
    google.page = 1
    google.errors["spot-m"] = [error("x", "QUOTA_EXCEEDED", google.now - 5000)] * 100
    google.slow = 1.0
    assert run(google) == []
    assert len(google.made("GET", "spot-m/listErrors")) == ERROR_PAGES
    urls = [url for _, url, _ in google.calls]
    listings = [number for number, url in enumerate(urls) if url.endswith("listManagedInstances")]
    assert max(number for number, url in enumerate(urls) if url.endswith("listErrors")) < min(listings)
    assert google.removed == named("off", "never", "other")


def test_a_run_that_takes_too_long_leaves_a_report_and_another_queue_comes_first_next_time():
    (queue,) = SETTINGS["queues"]
    settings = {**SETTINGS, "queues": [{**queue, "name": name} for name in "abc"]}
    done = set()
    for number in range(3):
        google = gone()
        google.now = 1_800_000_000.0 + 120 * number
        google.slow = 5.0
        assert run(google, settings)
        told = google.report["queues"]
        done |= {name for name in "abc" if not told[name]["decisions"][0].startswith("nothing: ")}
        assert any("the run is out of time" in told[name]["decisions"][0] for name in "abc")
        assert google.clock < 110
    assert done == set("abc")


def test_several_series_of_a_metric_are_added_up():
    google = Google()
    google.samples = [[1] * 5, [2] * 5]
    run(google)
    assert google.report["queues"]["cpu"]["backlog"] == 3


def test_the_report():
    google = Google(now=1_800_000_000.0)
    google.machines["spot-m"] = [
        listed("a", "TERMINATED"), listed("b", "RUNNING"), listed("c", action="CREATING"), listed("d", "RUNNING")
    ]  # fmt: skip
    google.samples = [[8] * 5]
    assert run(google) == []
    report = google.report
    assert report.pop("at") in (iso(google.now), iso(google.now + 1), iso(google.now - 1))
    shown = {"target": 4, "running": 2, "creating": 1, "stopped": 1, "stockout": False, "errors": [], "quotas": []}
    shown |= {"autoscaler": "", "notes": [], "failures": [], "unheard": 3}
    closed = shown | dict.fromkeys(("target", "running", "creating", "stopped", "unheard"), 0)
    assert report == {
        "period_seconds": 120,
        "queues": {
            "cpu": {
                "backlog": 8,
                "groups": {"spot": shown | {"open": None}, "on_demand": closed | {"open": False}},
                "decisions": ["remove 1 spot machines: powered off", "remove 1 spot machines: wanted for nothing"],
            }
        },
    }


def test_the_report_has_googles_words_and_three_failures_of_a_code():
    google = Google()
    google.errors["spot-m"] = [
        error(f"m{number}", code, google.now - number)
        for number in range(5)
        for code in ("IP_SPACE_EXHAUSTED", "QUOTA_EXCEEDED")
    ]
    assert run(google) == []
    failures = google.report["queues"]["cpu"]["groups"]["spot"]["failures"]
    assert [each["code"] for each in failures] == ["IP_SPACE_EXHAUSTED"] * 3 + ["QUOTA_EXCEEDED"] * 3
    assert {each["zone"] for each in failures} == {"r-a"}


def test_time_is_the_clouds_own():
    """A function whose clock is wrong must not take an old sample for a new one; here the cloud is a year ahead."""
    google = Google(now=time.time() + 365 * 86400)
    google.machines["spot-m"] = [listed("never", action="CREATING")]
    assert run(google) == []
    assert google.removed == named("never")
    (asked,) = google.made("GET", SERIES)
    assert asked["params"]["interval.endTime"][:4] == time.strftime("%Y", time.gmtime(google.now))


def test_machines_that_stay_warm_are_named_in_the_store():
    google = Google()
    google.machines["spot-m"] = [listed(name, "RUNNING") for name in ("c", "b", "a")]
    (queue,) = SETTINGS["queues"]
    groups = [{**queue["groups"][0], "minimum": 2}]
    assert run(google, {**SETTINGS, "queues": [{**queue, "groups": groups}]}) == []
    (warm,) = [more for more in google.made("POST", UPLOAD) if more["params"]["name"] == "fleet/warm/cpu"]
    assert warm["data"] == b"a\nb\n"


def test_every_decision_is_a_json_line(capsys: pytest.CaptureFixture[str]):
    google = Google()
    google.machines["spot-m"] = [listed("off", "TERMINATED")]
    run(google)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (decision,) = [line for line in lines if line["event"] == "decision"]
    assert decision["machines"] == named("off")
    assert (decision["severity"], decision["queue"], decision["kind"]) == ("NOTICE", "cpu", "remove")
    assert [line["event"] for line in lines].count("queue") == 1


# ---- what cannot be read -----------------------------------------------------------------------------------------

REFUSED = (403, {"error": {"message": "denied"}})
READS = ["listManagedInstances", "listErrors", "autoscalers/spot-a", "instanceGroupManagers/spot-m"]


def gone() -> Google:
    google = Google()
    google.machines["spot-m"] = [listed("off", "TERMINATED"), listed("never", action="CREATING")]
    google.machines["od-m"] = [listed("other", "TERMINATED")]
    return google


@pytest.mark.parametrize("part", READS)
@pytest.mark.parametrize("failure", [REFUSED, (500, "oops"), (200, "no JSON"), (200, []), OSError("reset")], ids=str)
def test_a_queue_whose_machines_cannot_be_read_is_left_alone(part, failure):
    google = gone()
    google.broken = {part: [failure]}
    assert len(run(google)) == 1
    assert google.changes == []
    report = google.report["queues"]["cpu"]
    assert (report["backlog"], report["groups"]) == (None, {})
    assert report["decisions"][0].startswith("nothing: cpu: ")


@pytest.mark.parametrize(
    "answer",
    [{"managedInstances": [{"currentAction": "NONE"}]}, {"managedInstances": None}, {"managedInstances": ["x"]}],
)
def test_an_answer_of_another_shape_changes_nothing(answer):
    google = gone()
    google.broken = {"listManagedInstances": [(200, answer)]}
    assert len(run(google)) == 1
    assert google.changes == []


@pytest.mark.parametrize("failure", [REFUSED, (503, "oops"), (200, {"timeSeries": [{"points": [{}]}]})], ids=str)
def test_without_the_backlog_only_what_is_off_is_removed(failure):
    google = gone()
    google.broken = {SERIES: [failure]}
    assert len(run(google)) == 1
    assert google.removed == named("off", "other")
    assert google.report["queues"]["cpu"]["backlog"] is None


def test_a_metric_without_samples_is_no_failure_and_no_empty_queue():
    google = gone()
    google.samples = []
    assert run(google) == []
    assert google.removed == named("off", "other")


def test_without_the_error_records_nobodys_place_is_held():
    google = gone()
    google.samples = [[900] * 5]
    google.broken = {"storage/v1/b/store/o": [REFUSED]}
    assert len(run(google)) == 4  # messages, held jobs and the report are refused too: it is the same bucket
    assert google.removed == named("off", "other")


def test_a_removal_that_fails_is_reported_and_the_rest_goes_on():
    google = gone()
    google.broken = {"spot-m/deleteInstances": [REFUSED]}
    failures = run(google)
    assert len(failures) == 2  # what was off, and what was wanted for nothing
    assert google.made("POST", "od-m/deleteInstances")
    assert google.report["queues"]["cpu"]["decisions"][0].startswith("failed: cpu: remove 1 spot machines: powered off")


def test_one_queue_that_cannot_be_read_does_not_stop_another():
    google = gone()
    (queue,) = SETTINGS["queues"]
    first = {**queue, "name": "a", "groups": [{**queue["groups"][0], "manager": "missing"}]}
    google.broken = {"missing": [(404, "not found")]}
    assert len(run(google, {**SETTINGS, "queues": [first, queue]})) == 1
    assert google.removed == named("off", "never", "other")


@pytest.mark.parametrize("failure", [(503, "later"), (429, "slow down"), OSError("reset")], ids=str)
def test_what_passes_is_tried_again(failure):
    google = gone()
    google.broken = {"listManagedInstances": [failure, failure, None, None]}
    assert run(google) == []
    assert google.removed == named("off", "never", "other")


def test_what_is_refused_is_not_tried_again():
    google = gone()
    google.broken = {"listErrors": [REFUSED]}
    run(google)
    assert len(google.made("GET", "listErrors")) == 1


@pytest.mark.parametrize(("part", "status"), [("nothing", 200), ("listErrors", 500), (SERIES, 500), (UPLOAD, 500)])
def test_the_scheduler_sees_what_failed(part, status, monkeypatch: pytest.MonkeyPatch):
    google = gone()
    google.broken = {part: [REFUSED]}
    monkeypatch.setenv("RECONCILER_SETTINGS", json.dumps(SETTINGS))
    monkeypatch.setattr(main.google, "session", lambda: google)
    body, code, headers = main.reconcile(None)
    assert (code, headers["Content-Type"]) == (status, "application/json")
    assert bool(json.loads(body)["failures"]) == (status == 500)


def test_other_addresses_of_the_apis_are_honoured(monkeypatch: pytest.MonkeyPatch):
    for api in ("COMPUTE", "MONITORING", "STORAGE"):
        monkeypatch.setenv(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}", f"http://127.0.0.1:9/{api.lower()}/")
    google = Google()
    asked: list[str] = []

    class Elsewhere:
        def request(self, method: str, url: str, **more: Any) -> Answer:
            asked.append(url)
            for api in ("compute", "monitoring", "storage"):
                url = url.replace(f"http://127.0.0.1:9/{api}/", f"https://{api}.googleapis.com/")
            return google.request(method, url, **more)

    assert main.run(FleetSettings.parse(json.dumps(SETTINGS)), Cloud("p", "r", "store", Elsewhere())) == []
    assert {url.split("/")[3] for url in asked} == {"compute", "monitoring", "storage"}
    assert all(url.startswith("http://127.0.0.1:9/") for url in asked)
