"""A stand-in for Pulumi's language host for Node.js, which starts the runner of `@pulumi/pulumi`."""

from __future__ import annotations

from typing import Any

from localcloud.engine import host
from tests.engine.typescript import NODE, RUNNER


class NodeHost(host.LanguageHost):
    """Runs a program that is compiled."""

    def command(self, request: Any) -> list[str]:
        runner = f"{request.info.root_directory}/node_modules/{RUNNER}"
        # It spells options with hyphens.
        given = [each.replace("_", "-") if each.startswith("--") else each for each in self.arguments(request)]
        return [str(NODE), runner, *given]


def serve() -> None:
    """Serve until the engine ends this process."""
    host.main(RUNNER, NodeHost)
