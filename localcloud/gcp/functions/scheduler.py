"""Cloud Scheduler in the daemon: calls HTTP targets when due on the cloud's clock, one call per job at a time."""

from __future__ import annotations

import base64
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from localcloud.gcp.compute.managed import stamp
from localcloud.gcp.functions.cron import Cron
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError

Json = dict[str, Any]
LOOK_SECONDS = 0.2
LONGEST_SECONDS = 330.0
UTC_NAMES = {"", "UTC", "Etc/UTC", "Etc/GMT", "GMT"}
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
        self.controls = {"scheduler/pause": self._pause, "scheduler/run": self._run_now}
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
        self._pool.submit(self._attempt, name)
        return Response.of(self._site.resources.get(name))

    @staticmethod
    def _check(job: Json) -> None:
        try:
            if "schedule" in job:
                Cron(job["schedule"])
        except ValueError as error:
            raise RestError(400, f"Schedule or time zone is invalid: {error}", field="schedule") from None
        if job.get("timeZone", "") not in UTC_NAMES:
            raise RestError(501, f"localcloud's clock is UTC, not {job['timeZone']}", field="timeZone")
        if (
            "pubsubTarget" in job
            or "appEngineHttpTarget" in job
            or int(job.get("retryConfig", {}).get("retryCount", 0))
        ):
            raise RestError(501, "localcloud's scheduler knows HTTP targets without retries")

    def _loop(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            now = int(self._site.clock.now() // 60)
            minutes, self._minute = range(self._minute + 1, now + 1), now
            if minutes and not self.paused:
                for name, job in self._jobs():
                    cron = Cron(job["schedule"])
                    if job.get("state", "ENABLED") == "ENABLED" and any(map(cron.matches, minutes)):
                        self._pool.submit(self._attempt, name)

    def _jobs(self) -> list[tuple[str, Json]]:
        return self._site.resources.list(f"cloudscheduler/projects/{self._site.project}/locations/-/jobs")

    def _attempt(self, name: str) -> None:
        """Make one call, unless the previous one is still running."""
        with self._lock:
            if name in self._running:
                return
            self._running.add(name)
        try:
            job = self._site.resources.get(name)
            if job:
                status = self._call(job)
                code = 0 if status < 300 else CODES.get(status, 2)
                done = {"lastAttemptTime": stamp(self._site.clock.now()), "status": {"code": code} if code else {}}
                self._site.resources.change(name, lambda value: value.update(done))
        finally:
            with self._lock:
                self._running.discard(name)

    def _call(self, job: Json) -> int:
        """Status of the answer; 503 if none came."""
        target = job["httpTarget"]
        headers = dict(target.get("headers", {}))
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
        for each in [self._pool.submit(self._attempt, name) for name in names]:
            each.result(LONGEST_SECONDS)
        return {name.rpartition("/")[2]: (self._site.resources.get(name) or {}).get("status", {}) for name in names}

    def stop(self) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
