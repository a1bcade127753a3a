"""The provider that the engine starts: it returns the package's schema and constructs components for other programs."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pulumi
from pulumi.errors import InputPropertyError
from pulumi.provider import ConstructResult, Provider, main
from pulumi.provider.server import ComponentInitError

from components.config import ConfigError
from plugin.package import COMPONENTS, PACKAGE, VERSION, Package


class TidemillProvider(Provider):
    """Serves the components. It imports only those that are constructed: a cloud's SDK takes a second to load."""

    def __init__(self) -> None:
        # Not the base class's, which would set the schema and import all components of both clouds for that.
        self.version = VERSION

    @cached_property
    def schema(self) -> str:  # type: ignore[override]
        return Package(list(COMPONENTS)).json

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Mapping[str, Any],
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Make a component with its children.

        Raises:
            InputPropertyError: the component does not exist, or an input is wrong.
        """
        component = resource_type.rpartition(":")[2]
        if resource_type != f"{PACKAGE}:index:{component}" or component not in COMPONENTS:
            raise InputPropertyError(
                "type", f"there is no {resource_type}; {PACKAGE}:index has {', '.join(COMPONENTS)}"
            )
        try:
            return Package([component]).construct(name, resource_type, dict(inputs), options)
        except ComponentInitError as error:
            # An invalid config is one line; a bug in the component keeps its traceback.
            inner = error.inner
            if isinstance(inner, ConfigError):
                raise InputPropertyError(inner.what, str(inner).removeprefix(inner.what).lstrip(": ")) from None
            if isinstance(inner, pulumi.RunError):
                key, _, reason = str(inner).partition(": ")
                raise InputPropertyError(key, reason) from None
            raise


def serve(arguments: list[str]) -> None:
    """Serve until the engine ends this process.

    Args:
        arguments: the engine's address, and flags of its own.
    """
    main(TidemillProvider(), arguments)
