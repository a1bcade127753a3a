"""Runs of the engine on this terminal: what is printed, who gets Ctrl-C, and how failures end."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pulumi
from pulumi import automation
from pulumi.automation import errors

from tidemill.errors import CallerError, CloudError

Say = Callable[[str], Any]
"""Prints a line."""
QUIET = (automation.OpType.SAME, automation.OpType.READ, automation.OpType.REFRESH)


def take_away(stack: automation.Stack, say: Say) -> None:
    """Delete everything of a stack whose program has lifted the protection.

    The first run only brings that to what is protected: a stack that was never finished stays so, and one that was
    deleted in part is not made again.
    """
    protected = [each for each in _resources(stack.export_stack()) if each.get("protect")]
    # A component stands for resources that the stack may not have: an older version has made it, or not all of it.
    if made := [each["urn"] for each in protected if each.get("custom")]:
        stack.up(**printing(say), target=made)
    if len(made) < len(protected):
        _lift(stack)
    stack.destroy(**printing(say))


def _lift(stack: automation.Stack) -> None:
    """Lift the protection of components, which are in the state alone."""
    exported = stack.export_stack()
    for each in _resources(exported):
        if not each.get("custom"):
            each["protect"] = False
    stack.import_stack(exported)


def _resources(exported: automation.Deployment) -> list[dict[str, Any]]:
    return (exported.deployment or {}).get("resources") or []


def unlocked(stack: automation.Stack) -> list[str]:
    """Remove the lock of a run that was killed; returns the resources that it may have made without a record."""
    with told():
        stack.cancel()
        deployment = stack.export_stack().deployment or {}
    begun = deployment.get("pending_operations") or []
    return [f"{each['resource']['type']}  {each['resource']['urn'].rpartition('::')[2]}" for each in begun]


def printing(say: Say) -> dict[str, Any]:
    """Options of a run that prints a line per change, violation and error."""

    def show(event: automation.EngineEvent) -> None:
        for line in _lines(event):
            say(line)

    return {"on_event": show, "suppress_outputs": True, "suppress_progress": True, "color": "never"}


def _lines(event: automation.EngineEvent) -> Iterator[str]:
    """Lines about an event, for people: a planned change, one that is done, what a rule says, or an error."""
    if planned := event.resource_pre_event:
        yield from _change(planned.metadata, "would ") if planned.planning else ()
    elif done := event.res_outputs_event:
        yield from _change(done.metadata) if not done.planning else ()
    elif ruled := event.policy_event:
        resource = (ruled.resource_urn or "").rpartition("::")[2]
        yield f"{ruled.enforcement_level}  {ruled.policy_name}  {resource}: {_one_line(ruled.message)}"
    elif (diagnostic := event.diagnostic_event) and diagnostic.severity == "error":
        yield f"error: {diagnostic.message.strip()}"


def _change(step: Any, would: str = "") -> Iterator[str]:
    if step.op not in QUIET and step.provider:
        yield f"  {would}{step.op.value}  {step.type}  {step.urn.rpartition('::')[2]}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def told() -> Iterator[None]:
    """Leave Ctrl-C to the engine, which finishes the steps that it has begun, and turn its failures into ours.

    Without the first, this process would end while the engine still holds the stack's lock.

    Raises:
        CallerError: Somebody else is at it.
        CloudError: The engine failed; its own lines have been printed.
        KeyboardInterrupt: The caller interrupted it.
    """
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        yield
    except errors.ConcurrentUpdateError as error:
        holder = re.search(r"created by (.+?)(?:\n|$)", str(error))
        who = f" ({holder[1].strip()})" if holder else ""
        raise CallerError(
            f"Another `tidemill up` or `down` is at this pipeline{who}.",
            "Wait for it. If it was killed, its lock is left: give --unlock.",
        ) from None
    except errors.CommandError as error:
        if seen:
            raise KeyboardInterrupt from None
        raise CloudError(f"Pulumi stopped: {_reason(str(error))}.", _fix(str(error))) from None
    except pulumi.RunError as error:
        raise CallerError(str(error)) from None
    finally:
        signal.signal(signal.SIGINT, before)
    if seen:
        raise KeyboardInterrupt


def _fix(text: str) -> str:
    if re.search(r"already exists|is there already", text, re.IGNORECASE):
        return (
            "A command that was killed may have made it without a record. Delete it in the cloud's console, then type "
            "the same command."
        )
    return "What it has made is recorded: the same command goes on from there."


def _reason(text: str) -> str:
    """The engine's first error in one line."""
    if re.search(r"^ code: -", text, re.MULTILINE):
        return "something killed it"
    lines = [line.strip() for line in text.splitlines()]
    found = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return " ".join((found or ["see above"])[0].split()).rstrip(".:")
