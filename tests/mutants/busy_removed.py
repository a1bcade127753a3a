"""Mutant: a running machine is taken for one that never came, so that a fleet that is too large shrinks."""

from components.services.pubsub.reconciler_function import decide

STATE = decide.Machine.state


def seen(self: decide.Machine) -> str:
    found = STATE.__get__(self)
    return "absent" if found == "up" else found


def apply() -> None:
    decide.Machine.state = property(seen)  # type: ignore[assignment,method-assign]
