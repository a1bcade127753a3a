"""`tidemill:overrides`: extra properties of a stack's resources, by their names."""

import re
from collections.abc import Mapping
from typing import Any

import pulumi

from .config import ConfigError
from .config.errors import key_path, nearest, shown
from .sdk_inputs import Inputs, inputs_of, unknown_input


class Overrides:
    """Merges properties into resources below a component, and knows which resources there are.

    Args:
        wanted: Properties by the name of a resource, or by its type and name: ``LaunchTemplate/x-machines``.
    """

    def __init__(self, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        self._wanted = wanted
        self._inputs: dict[str, dict[str, Inputs]] = {}
        """Known properties by the name and type of each resource that the program has made."""

    def options(self, opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions | None:
        """Options of the component; unchanged if nothing is overridden."""
        if not self._wanted:
            return opts
        # The first sees each resource at once, in the program; the second its final properties, in the engine.
        both = pulumi.ResourceOptions(transformations=[self._note], transforms=[self.apply])
        return pulumi.ResourceOptions.merge(opts, both)

    def _note(self, args: pulumi.ResourceTransformationArgs) -> None:
        if isinstance(args.resource, pulumi.CustomResource):
            self._inputs.setdefault(args.name, {})[_kind(args.type_)] = inputs_of(type(args.resource))

    def apply(self, args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        """A resource with its properties; None if it has no override."""
        extra = self._wanted.get(args.name) or self._wanted.get(f"{_kind(args.type_)}/{args.name}")
        if not extra or not args.custom:
            return None
        return pulumi.ResourceTransformResult(merged(args.props, extra), None)  # type: ignore[arg-type]  None keeps them

    def check(self) -> None:
        """Refuse names that no resource has; call it when the program has made all of them.

        Raises:
            ConfigError: no resource has a name, several have it, or a resource has no such property.
        """
        for key, properties in self._wanted.items():
            here = key_path(["overrides", key])
            kind, _, name = key.partition("/") if re.match(r"[A-Z]\w*/", key) else ("", "", key)
            by_kind = self._inputs.get(name, {})
            if not by_kind or (kind and kind not in by_kind):
                raise _no_resource(here, key, self._names())
            if not kind and len(by_kind) > 1:
                keys = ", ".join(f"{each}/{name}" for each in sorted(by_kind))
                raise ConfigError(here, shown(key), keys, "Several resources have the name; put the type before it")
            if wrong := unknown_input(properties, by_kind[kind or next(iter(by_kind))]):
                path, allowed = wrong
                guess = nearest(str(path[-1]), allowed)
                raise ConfigError(
                    key_path(["overrides", key, *path]),
                    shown(path[-1]),
                    f"properties there: {', '.join(allowed)}",
                    f"Did you mean {guess}?" if guess else "Take the spelling of the preview",
                )

    def _names(self) -> list[str]:
        """How each resource can be named."""
        return [name if len(kinds) == 1 else f"{kind}/{name}" for name, kinds in self._inputs.items() for kind in kinds]


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Properties with others over them: mappings are merged, null removes a property, any other value replaces it."""
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(before, pulumi.Output):
            result[key] = before.apply(lambda value_before, value=value: _over(value_before, value))
        else:
            result[key] = _over(before, value)
    return result


def _over(before: Any, value: Any) -> Any:
    return merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value


def _no_resource(key: str, name: str, known: list[str]) -> ConfigError:
    guess = nearest(name, known)
    return ConfigError(
        key,
        shown(name),
        f"the name of one of the {len(known)} resources, as `pulumi preview` shows it",
        f"Did you mean {guess}?" if guess else "Take a name from the preview, without the overrides",
    )


def _kind(token: str) -> str:
    """``LaunchTemplate`` of ``aws:ec2/launchTemplate:LaunchTemplate``."""
    return token.rpartition(":")[2]
