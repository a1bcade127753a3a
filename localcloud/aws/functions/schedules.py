"""EventBridge Scheduler: invokes functions when their schedules are due, on a clock that a test can turn.

moto keeps the schedules. A clock that is turned has been away: each schedule that came due meanwhile fires once, for
the newest of its times.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.scheduler.exceptions import ScheduleGroupNotFound, ValidationException
from moto.scheduler.models import EventBridgeSchedulerBackend, Schedule, scheduler_backends

from localcloud.aws import accounts
from localcloud.aws.accounts import ACCOUNT, RoleRefusedError, role_credentials
from localcloud.aws.authorize import may
from localcloud.aws.errors import AwsError
from localcloud.aws.functions.cron import Expression
from localcloud.aws.functions.functions import LambdaFunctions, find
from localcloud.aws.mended.method import method

SERVICE = "scheduler.amazonaws.com"
LOOK_SECONDS = 0.2
SCHEDULED = "<aws.scheduler.scheduled-time>"
"""https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html"""
_create, _update = EventBridgeSchedulerBackend.create_schedule, EventBridgeSchedulerBackend.update_schedule


class Schedules:
    """The clock of the schedules, and what fires them."""

    def __init__(self, functions: LambdaFunctions) -> None:
        self._functions = functions
        self._ahead = timedelta()
        self._lock = threading.Lock()
        self._looked = datetime.now(UTC)
        self._stopped = threading.Event()
        self.controls = {"schedules/turn": self._turn}
        self._thread = threading.Thread(target=self._loop, name="schedules", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> list[str]:
        """Fire what has come due since the last look. Returns the names of the schedules."""
        with self._lock:
            after, now = self._looked, datetime.now(UTC) + self._ahead
            self._looked = max(after, now)
        fired = []
        for region, schedule in _schedules():
            begun = datetime.fromtimestamp(schedule.creation_date, UTC)
            due = Expression(schedule.schedule_expression, schedule.schedule_expression_timezone)
            times = list(due.between(after, now)) if schedule.state == "ENABLED" and now > begun else []
            if times and self._fire(region, schedule, times[-1]):
                fired.append(schedule.name)
        return fired

    def _fire(self, region: str, schedule: Schedule, at: datetime) -> bool:
        """Invoke a schedule's function; False if its role does not let it."""
        target = schedule.target
        try:
            role_credentials(target["RoleArn"], schedule.name, SERVICE)
            if not may(target["RoleArn"], "lambda:InvokeFunction", target["Arn"], region):
                return False
            function = find(target["Arn"], region)
        except (RoleRefusedError, AwsError):
            return False
        payload = target.get("Input", "{}").replace(SCHEDULED, at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._functions.send(function, payload.encode())
        return True

    def _turn(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Turn the clock to a time (`{"to": "2026-11-23T02:00:30+00:00"}`), or by seconds (`{"seconds": 60}`). Returns
        what fired. A clock that is turned back fires nothing until it has caught up."""
        with self._lock:
            now = datetime.now(UTC) + self._ahead
            to = datetime.fromisoformat(wanted["to"]) if "to" in wanted else now + timedelta(seconds=wanted["seconds"])
            self._ahead += to - now
        return {"fired": self._look(), "now": to.isoformat()}

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(2)


def _schedules() -> list[tuple[str, Schedule]]:
    with accounts.moto.lock:
        backends: list[tuple[str, Any]] = list(scheduler_backends[ACCOUNT].items())
        groups = [(region, group) for region, each in backends for group in each.schedule_groups.values()]
        return [(region, schedule) for region, group in groups for schedule in group.schedules.values()]


def _checked(expression: str, zone: str | None) -> None:
    try:
        Expression(expression, zone or "UTC")
    except ValueError as error:
        raise ValidationException(str(error)) from None


@method(EventBridgeSchedulerBackend, "create_schedule")
def _create_checked(self: EventBridgeSchedulerBackend, **given: Any) -> Schedule:
    _checked(given["schedule_expression"], given["schedule_expression_timezone"])
    return _create(self, **given)


@method(EventBridgeSchedulerBackend, "update_schedule")
def _update_checked(self: EventBridgeSchedulerBackend, **given: Any) -> Schedule:
    _checked(given["schedule_expression"], given["schedule_expression_timezone"])
    return _update(self, **given)


@method(EventBridgeSchedulerBackend, "delete_schedule_group")
def _delete_group(self: EventBridgeSchedulerBackend, name: str) -> None:
    """Delete a group with its schedules; moto fails where there is none."""
    if self.schedule_groups.pop(name, None) is None:
        raise ScheduleGroupNotFound(name)
