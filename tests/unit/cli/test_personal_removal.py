"""How the stack of a personal pipeline is taken away. The engine is a fake; tests/e2e/personal has the real one."""

from types import SimpleNamespace
from typing import Any

from components.personal.runs import take_away


class FakeStack:
    """A state, and what is done to it. Its engine refuses a targeted component that depends on what there is not."""

    def __init__(self, **resources: dict[str, Any]) -> None:
        self.resources = [{"urn": urn, **fields} for urn, fields in resources.items()]
        self.destroyed = False

    def export_stack(self) -> Any:
        return SimpleNamespace(deployment={"resources": self.resources})

    def import_stack(self, exported: Any) -> None:
        self.resources = exported.deployment["resources"]

    def up(self, target: list[str], **_: Any) -> None:
        for each in self.resources:
            if each["urn"] in target:
                assert each["custom"], "it depends on a resource that only a newer version makes"
                each["protect"] = False

    def destroy(self, **_: Any) -> None:
        assert not any(each.get("protect") for each in self.resources)
        self.destroyed = True


def test_a_stack_that_an_older_version_has_made_is_taken_away() -> None:
    stack: Any = FakeStack(
        bucket={"custom": True, "protect": True}, role={"custom": True}, protection={"custom": False, "protect": True}
    )
    take_away(stack, print)
    assert stack.destroyed


def test_a_stack_that_was_never_finished_is_taken_away() -> None:
    stack: Any = FakeStack(role={"custom": True})
    take_away(stack, print)
    assert stack.destroyed
