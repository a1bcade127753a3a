"""Services and functions as processes, and the scheduler that calls them. Not proved: Google's build and ingress."""

from __future__ import annotations

import io
import json
import sys
import tempfile
import textwrap
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from localcloud.gcp import project
from localcloud.gcp.functions.cron import Cron
from localcloud.gcp.functions.scheduler import CloudScheduler
from localcloud.gcp.wire import Request, RestError
from tests.localcloud.gcp.running import OWNER, RunningGcp
from tests.localcloud.waiting import until

PROJECT = f"projects/{project.PROJECT}"
PLACE = f"{PROJECT}/locations/{project.REGION}"
SOURCE = """
import json, os, urllib.request

calls = 0

def metadata(path):
    request = urllib.request.Request(
        f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"})
    return urllib.request.urlopen(request, timeout=300).read().decode()

def entry(request):
    global calls
    calls += 1
    print(json.dumps({"message": "called", "calls": calls}))
    if request.data == b"raise":
        raise RuntimeError("on purpose")
    if request.data == b"refuse":
        return "no", 500, {}
    account = "instance/service-accounts/default"
    return {"calls": calls, "given": os.environ["GIVEN"], "leaks": os.environ.get("LEAKS"),
            "email": metadata(account + "/email"), "token": json.loads(metadata(account + "/token"))["access_token"]}
"""


SERVICE = """
import http.server, json, os, pathlib, urllib.request

calls = pathlib.Path(os.environ["CALLS"])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        address = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1/instance/service-accounts/default/email"
        asked = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
        account = urllib.request.urlopen(asked, timeout=60).read().decode()
        status = 200 if calls.exists() else 500
        with calls.open("a") as log:
            print(json.dumps([account, self.headers["X-CloudScheduler-ScheduleTime"], status]), file=log)
        self.send_response(status)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def zipped(**files: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_py", ".py"), textwrap.dedent(text))
    return content.getvalue()


class Made(RunningGcp):
    """A daemon with accounts and a bucket for sources. An hour of the cloud is three seconds here."""

    def __init__(self, state: Path) -> None:
        super().__init__(state, time_factor=1200)
        for account in ("function", "caller", "stranger"):
            self.call("iam", "POST", f"v1/{PROJECT}/serviceAccounts", {"accountId": account})
        self.call("storage", "POST", f"storage/v1/b?project={project.PROJECT}", {"name": "sources-of-functions"})

    def email(self, account: str) -> str:
        return f"{account}@{project.PROJECT}.iam.gserviceaccount.com"

    def upload(self, name: str, archive: bytes) -> None:
        query = {"uploadType": ["media"], "name": [f"{name}.zip"]}
        headers = {"content-type": "application/zip"}
        path = "upload/storage/v1/b/sources-of-functions/o"
        self.site.serve(Request("storage", "POST", path, query, headers, archive, OWNER))

    def deploy(self, name: str, archive: bytes, account: str = "function") -> str:
        """Deploy a function and let the caller call it. Returns its address."""
        self.upload(name, archive)
        body = {
            "buildConfig": {"runtime": "python312", "entryPoint": "entry", "source": {
                "storageSource": {"bucket": "sources-of-functions", "object": f"{name}.zip"}}},
            "serviceConfig": {"serviceAccountEmail": self.email(account), "timeoutSeconds": 60,
                              "environmentVariables": {"GIVEN": "value"}},
        }  # fmt: skip
        done = self.call("cloudfunctions", "POST", f"v2/{PLACE}/functions?functionId={name}", body)
        assert done["done"]
        function = self.call("cloudfunctions", "GET", f"v2/{PLACE}/functions/{name}")
        assert (function["state"], done["response"]["url"]) == ("ACTIVE", function["url"])
        assert function["serviceConfig"]["environmentVariables"] == {"GIVEN": "value"}
        binding = {"role": "roles/run.invoker", "members": [f"serviceAccount:{self.email('caller')}"]}
        policy = {"policy": {"bindings": [binding]}}
        self.call("run", "POST", f"v2/{PLACE}/services/{name}:setIamPolicy", policy)
        return function["serviceConfig"]["uri"]

    def ask(self, uri: str, account: str, body: bytes = b"") -> tuple[int, str]:
        """Call a function as an account, over HTTP."""
        headers = {}
        if account:
            token = self.site.tokens.issue(f"serviceAccount:{self.email(account)}")["access_token"]
            headers["Authorization"] = f"Bearer {token}"
        try:
            with urllib.request.urlopen(urllib.request.Request(uri, body, headers), timeout=300) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def job(self, name: str, uri: str, account: str = "caller", **more: Any) -> str:
        body = {
            "name": f"{PLACE}/jobs/{name}", "schedule": "*/2 * * * *", "timeZone": "Etc/UTC",
            "httpTarget": {"uri": uri, "httpMethod": "POST", "oidcToken": {"serviceAccountEmail": self.email(account)}},
            **more,
        }  # fmt: skip
        self.call("cloudscheduler", "POST", f"v1/{PLACE}/jobs", body)
        return f"v1/{PLACE}/jobs/{name}"

    def printed(self, name: str) -> list[dict[str, Any]]:
        log = self.site.state / "functions" / f"{name}.log"
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    with tempfile.TemporaryDirectory(prefix="functions-") as state, Made(Path(state)) as site:
        yield site


@pytest.fixture(scope="module")
def uri(made: Made) -> str:
    return made.deploy("reconciler", zipped(main_py=SOURCE))


def test_a_function_runs_with_its_own_environment_and_account(
    made: Made, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKS", "yes")
    status, text = made.ask(uri, "caller")
    seen = json.loads(text)
    assert status == 200
    assert (seen["given"], seen["leaks"], seen["email"]) == ("value", None, made.email("function"))
    assert made.site.tokens.principal(seen["token"]) == f"serviceAccount:{made.email('function')}"
    assert json.loads(made.ask(uri, "caller")[1])["calls"] == seen["calls"] + 1, "the process is kept"
    assert made.printed("reconciler")[0]["message"] == "called"
    wanted = {"resourceNames": [PROJECT], "filter": 'resource.labels.service_name = "reconciler"'}
    entry = made.call("logging", "POST", "v2/entries:list", wanted)["entries"][0]
    assert (entry["jsonPayload"], entry["resource"]["type"]) == (
        {"message": "called", "calls": 1},
        "cloud_run_revision",
    )


@pytest.mark.parametrize(("account", "status"), [("", 401), ("stranger", 403), ("function", 403)])
def test_only_who_may_invoke_it_calls_it(made: Made, uri: str, account: str, status: int) -> None:
    before = len(made.printed("reconciler"))
    assert made.ask(uri, account)[0] == status
    assert len(made.printed("reconciler")) == before


def test_a_function_that_raises_answers_500_and_goes_on(made: Made, uri: str) -> None:
    assert made.ask(uri, "caller", b"raise") == (500, "Internal Server Error")
    assert made.ask(uri, "caller", b"refuse") == (500, "no")
    assert made.ask(uri, "caller")[0] == 200
    assert "RuntimeError: on purpose" in (made.site.state / "functions" / "reconciler.log").read_text()


@pytest.mark.parametrize(
    ("archive", "account"),
    [(b"no zip", "function"), (zipped(other_py="x = 1"), "function"), (zipped(main_py="def"), "function"),
     (zipped(main_py="x = 1"), "nobody")],
)  # fmt: skip
def test_a_source_that_cannot_be_built_is_not_deployed(made: Made, archive: bytes, account: str) -> None:
    with pytest.raises(RestError, match="Could not build or deploy"):
        made.deploy("broken", archive, account)
    with pytest.raises(RestError, match="not found"):
        made.call("cloudfunctions", "GET", f"v2/{PLACE}/functions/broken")


def test_an_entry_point_that_does_not_exist_is_seen_at_the_first_call(made: Made) -> None:
    uri = made.deploy("empty", zipped(main_py="x = 1"))
    assert made.ask(uri, "caller")[0] == 504


def test_a_new_source_replaces_the_process_and_a_deletion_ends_it(made: Made) -> None:
    uri = made.deploy("other", zipped(main_py="def entry(request): return 'one'"))
    assert made.ask(uri, "caller") == (200, "one")
    made.upload("second", zipped(main_py="def entry(request): return 'two', 200"))
    source = {"storageSource": {"bucket": "sources-of-functions", "object": "second.zip"}}
    patch = {"buildConfig": {"runtime": "python312", "entryPoint": "entry", "source": source}}
    made.call("cloudfunctions", "PATCH", f"v2/{PLACE}/functions/other?updateMask=buildConfig", patch)
    assert made.ask(uri, "caller") == (200, "two")
    made.call("cloudfunctions", "DELETE", f"v2/{PLACE}/functions/other")
    assert made.ask(uri, "caller")[0] in (403, 404)


# The scheduler


def test_a_job_is_called_at_its_minutes_and_not_while_the_scheduler_is_stopped(made: Made) -> None:
    uri = made.deploy("scheduled", zipped(main_py=SOURCE))
    job = made.job("often", uri)
    scheduler = made.site.plugin(CloudScheduler)
    until(lambda: len(made.printed("scheduled")) >= 3)
    state = made.call("cloudscheduler", "GET", job)
    assert (state["state"], state.get("status", {})) == ("ENABLED", {})
    made.controls["scheduler/pause"]({"paused": True})
    began = made.site.clock.now()
    settled = until(lambda: not scheduler._running and len(made.printed("scheduled")))
    until(lambda: made.site.clock.now() > began + 3600)
    assert len(made.printed("scheduled")) <= settled + 1, "at most the call that was on its way"
    assert made.controls["scheduler/run"]({"job": "often"}) == {"often": {}}
    count = len(made.printed("scheduled"))
    made.call("cloudscheduler", "POST", f"{job}:run", {})
    until(lambda: len(made.printed("scheduled")) > count)
    made.call("cloudscheduler", "POST", f"{job}:pause", {})
    count = until(lambda: not scheduler._running and len(made.printed("scheduled")))
    made.controls["scheduler/pause"]({"paused": False})
    assert made.call("cloudscheduler", "GET", job)["state"] == "PAUSED"
    began = made.site.clock.now()
    until(lambda: made.site.clock.now() > began + 600)
    assert len(made.printed("scheduled")) == count
    made.call("cloudscheduler", "DELETE", job)


def test_a_job_says_how_its_last_call_ended(made: Made, uri: str) -> None:
    made.controls["scheduler/pause"]({"paused": True})
    made.job("forbidden", uri, "stranger")
    made.job("gone", f"{made.site.url}/a.run.app/{project.REGION}/none")
    made.job("nobody", uri, "nobody")
    ended = made.controls["scheduler/run"]({})
    assert {name: status.get("code") for name, status in ended.items()} == {"forbidden": 7, "gone": 7, "nobody": 16}
    for name in ended:
        made.call("cloudscheduler", "DELETE", f"v1/{PLACE}/jobs/{name}")
    made.controls["scheduler/pause"]({"paused": False})


@pytest.mark.parametrize(
    "more", [{"schedule": "every day"}, {"timeZone": "Europe/Atlantis"}, {"pubsubTarget": {"topicName": "t"}}]
)
def test_a_job_that_is_not_known_is_refused(made: Made, uri: str, more: dict[str, Any]) -> None:
    with pytest.raises(RestError):
        made.job("wrong", uri, **more)


def test_a_turned_clock_calls_each_time_of_a_zone_and_a_failure_again(tmp_path: Path) -> None:
    """The night of 28 March 2027 has no half past two in Berlin."""
    with Made(tmp_path / "gcp") as made:
        made.controls["scheduler/pause"]({"paused": True})
        program, calls = tmp_path / "program.py", tmp_path / "calls"
        program.write_text(SERVICE)
        container = {
            "image": "docker.io/library/python",
            "command": [sys.executable],
            "args": [str(program)],
            "env": [{"name": "CALLS", "value": str(calls)}],
        }
        service = {"template": {"containers": [container], "serviceAccount": made.email("function"), "timeout": "60s"}}
        made.call("run", "POST", f"v2/{PLACE}/services?serviceId=sender", service)
        binding = {"role": "roles/run.invoker", "members": [f"serviceAccount:{made.email('caller')}"]}
        made.call("run", "POST", f"v2/{PLACE}/services/sender:setIamPolicy", {"policy": {"bindings": [binding]}})
        uri = made.call("run", "GET", f"v2/{PLACE}/services/sender")["uri"]
        assert made.ask(uri, "stranger")[0] == 403
        retry = {"retryCount": 3, "minBackoffDuration": "5s"}
        job = made.job("nightly", uri, schedule="30 2 * * *", timeZone="Europe/Berlin", retryConfig=retry)

        def turn(job: str, day: int) -> list[str]:
            to = datetime(2027, 3, day, 12, tzinfo=UTC).timestamp()
            return made.controls["scheduler/turn"]({"to": to, "job": job})

        assert turn("none", 26) == []
        assert turn("nightly", 29) == ["nightly 2027-03-27T01:30:00.000000Z", "nightly 2027-03-29T00:30:00.000000Z"]
        seen = [json.loads(line) for line in calls.read_text().splitlines()]
        assert seen[0] == [made.email("function"), "2027-03-27T01:30:00.000000Z", 500], "the first call fails"
        assert [each[2] for each in seen] == [500, 200, 200]
        assert made.call("cloudscheduler", "GET", job).get("status", {}) == {}
        made.call("run", "DELETE", f"v2/{PLACE}/services/sender")
        assert made.ask(uri, "caller")[0] in (403, 404)


@pytest.mark.parametrize(
    ("text", "due", "not_due"),
    [
        ("*/2 * * * *", 28_000_000, 28_000_001),
        ("5 0 * * *", 24 * 60 * 7 + 5, 24 * 60 * 7 + 65),
        ("0 0 1 * *", 0, 24 * 60),
        ("0 0 * * 4", 0, 24 * 60),
        ("0 0 2 * 4", 0, 24 * 60 * 2),
        ("0-10/5,30 * * * *", 10, 11),
        ("0 0 * 1 7", 24 * 60 * 3, 24 * 60 * 2),
    ],
)
def test_cron(text: str, due: int, not_due: int) -> None:
    assert Cron(text).matches(due), "minutes since 1 January 1970, a Thursday"
    assert not Cron(text).matches(not_due)


@pytest.mark.parametrize("text", ["* * * *", "60 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "* 24 * * *"])
def test_what_is_no_cron_expression(text: str) -> None:
    with pytest.raises(ValueError, match=r"schedule|between"):
        Cron(text)
