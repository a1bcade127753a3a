"""Cloud Scheduler in the daemon: calls HTTP targets when due on the cloud's clock, one call per job at a time."""

from __future__ import annotations

import base64
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from localcloud.gcp.functions.cron import Cron
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError, stamp

Json = dict[str, Any]
LOOK_SECONDS = 0.2
LONGEST_SECONDS = 330.0
BACKOFF_SECONDS = 5.0
"""Before the first retry. https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs#RetryConfig"""
CODES = {401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14, 504: 4}
"""google.rpc.Code of an answer's status."""


class CloudScheduler(Plugin):
    apis = ("cloudscheduler",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._minute = int(site.clock.now() // 60)
        self._running: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(4, "scheduler")
        self.paused = False
        self.controls = {
            "scheduler/pause": self._pause, "scheduler/run": self._run_now, "scheduler/turn": self._turn,
        }  # fmt: skip
        threading.Thread(target=self._loop, name="scheduler", daemon=True).start()

    def handle(self, request: Request) -> Response | None:
        """Check created jobs, and run jobs on request; the generic server answers the rest."""
        verb = request.call.id.rpartition(".")[2]
        if verb in ("create", "patch"):
            self._check(request.call.body or {})
        if verb == "create":
            request.call.body.setdefault("state", "ENABLED")
        if verb != "run":
            return None
        name = self._site.full_name("cloudscheduler", request.call.name)
        if self._site.resources.get(name) is None:
            raise RestError(404, f"Job {name} was not found.")
        self._pool.submit(self._execute, name, self._site.clock.now())
        return Response.of(self._site.resources.get(name))

    @staticmethod
    def _check(job: Json) -> None:
        try:
            Cron(job.get("schedule", "* * * * *"), job.get("timeZone", ""))
        except ValueError as error:
            raise RestError(400, f"Schedule or time zone is invalid: {error}", field="schedule") from None
        if "pubsubTarget" in job or "appEngineHttpTarget" in job:
            raise RestError(501, "localcloud's scheduler knows HTTP targets alone")

    def _loop(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            minutes = self._minutes(self._site.clock.now())
            # A clock that runs fast skips minutes: the newest one counts.
            due = {} if self.paused else {name: minute for minute in minutes for name in self._due(minute)}
            for name, minute in due.items():
                self._pool.submit(self._execute, name, minute * 60.0)

    def _minutes(self, now: float) -> range:
        """The minutes up to a time that no job has been called for yet."""
        with self._lock:
            first, self._minute = self._minute + 1, max(self._minute, int(now // 60))
            return range(first, self._minute + 1)

    def _due(self, minute: int, job: str | None = None) -> list[str]:
        """The names of enabled jobs that are due in a minute; of all, or of one by its short name."""
        return [
            name
            for name, found in self._jobs()
            if job in (None, name.rpartition("/")[2])
            and found.get("state", "ENABLED") == "ENABLED"
            and Cron(found["schedule"], found.get("timeZone", "")).matches(minute)
        ]

    def _jobs(self) -> list[tuple[str, Json]]:
        return self._site.resources.list(f"cloudscheduler/projects/{self._site.project}/locations/-/jobs")

    def _execute(self, name: str, due: float) -> None:
        """Call a job that is due, and again while it fails, unless its previous execution goes on."""
        with self._lock:
            if name in self._running:
                return
            self._running.add(name)
        try:
            job = self._site.resources.get(name)
            retry = (job or {}).get("retryConfig", {})
            pause = float(retry.get("minBackoffDuration", f"{BACKOFF_SECONDS}s").removesuffix("s"))
            for left in range(int(retry.get("retryCount", 0)), -1, -1):
                if not job or self._attempt(name, job, due) < 300 or not left:
                    return
                if self._site.clock.wait(self._stopped, pause):
                    return
                pause *= 2
                job = self._site.resources.get(name)
        finally:
            with self._lock:
                self._running.discard(name)

    def _attempt(self, name: str, job: Json, due: float) -> int:
        """Make one call. Returns the status of the answer."""
        status = self._call(name, job, due)
        code = 0 if status < 300 else CODES.get(status, 2)
        done = {"lastAttemptTime": stamp(self._site.clock.now()), "status": {"code": code} if code else {}}
        self._site.resources.change(name, lambda value: value.update(done))
        return status

    def _call(self, name: str, job: Json, due: float) -> int:
        """Status of the answer; 503 if none came.

        Source: https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs#HttpTarget
        """
        target = job["httpTarget"]
        headers = dict(target.get("headers", {}))
        headers |= {"X-CloudScheduler": "true", "X-CloudScheduler-JobName": name.rpartition("/")[2]}
        headers["X-CloudScheduler-ScheduleTime"] = stamp(due)
        token = target.get("oidcToken") or target.get("oauthToken") or {}
        if email := token.get("serviceAccountEmail"):
            if not self._site.account_exists(email):
                return 401
            given = self._site.tokens.issue(f"serviceAccount:{email}")
            headers["Authorization"] = f"Bearer {given['access_token']}"
        body = base64.b64decode(target["body"]) if target.get("body") else b""
        request = urllib.request.Request(target["uri"], body, headers, method=target.get("httpMethod", "POST"))
        try:
            with urllib.request.urlopen(request, timeout=LONGEST_SECONDS) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 503

    def _pause(self, wanted: Json) -> Json:
        """Stop calling until resumed: `{"paused": true}`. Calls missed in between are skipped."""
        self.paused = bool(wanted["paused"])
        return {"paused": self.paused}

    def _run_now(self, wanted: Json) -> Json:
        """Call the job of this name (null: every job) and wait. Returns the final status of each."""
        names = [name for name, _ in self._jobs() if wanted.get("job") in (None, name.rpartition("/")[2])]
        self._wait(names, self._site.clock.now())
        return {name.rpartition("/")[2]: (self._site.resources.get(name) or {}).get("status", {}) for name in names}

    def _turn(self, wanted: Json) -> list[str]:
        """Turn the scheduler's clock ahead, to `to` in epoch seconds: call what falls due until then (null: every job,
        else the one of this name), minute by minute, also while it is paused, and wait. Returns `job time` of each."""
        done = []
        for minute in self._minutes(float(wanted["to"])):
            names = self._due(minute, wanted.get("job"))
            self._wait(names, minute * 60.0)
            done += [f"{name.rpartition('/')[2]} {stamp(minute * 60.0)}" for name in names]
        return done

    def _wait(self, names: list[str], due: float) -> None:
        for each in [self._pool.submit(self._execute, name, due) for name in names]:
            each.result(LONGEST_SECONDS)

    def stop(self) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
