"""Makes a rule from a plain function: its name comes from the file, and it records violations for the waivers."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeVar

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

from . import waivers
from .settings import settings

Parameters = Mapping[str, dict[str, Any]]
"""JSON schemas of a rule's parameters, each with its default."""
LOW, MEDIUM, HIGH, CRITICAL = Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL
Resource = ResourceValidationArgs
Stack = StackValidationArgs
Violations = Iterator[str]
StackViolations = Iterator[tuple[str, str]]
_ResourceCheck = Callable[[Resource], Violations]
_Check = TypeVar("_Check", bound=Callable[..., Iterator[Any]])
MANDATORY, ADVISORY = EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY


@cache
def is_of(kind: str, kinds: tuple[str, ...]) -> bool:
    return any(fnmatchcase(kind, pattern) for pattern in kinds)


KINDS: dict[str, tuple[str, ...]] = {}
"""The type tokens that each rule covers, by rule name."""
POLICIES: dict[str, Policy] = {}
"""The rules by name."""


def _rule(
    policy: Callable[..., Policy], judged: Callable[[Any, tuple[str, ...], Any], Iterator[tuple[str, str | None]]]
):
    """The decorator that makes rules of a class, by what it yields of a check, of the types it covers and of what the
    engine passes."""

    def decorator(
        description: str,
        severity: Severity,
        *kinds: str,
        level: EnforcementLevel = MANDATORY,
        parameters: Parameters | None = None,
    ) -> Callable[[_Check], _Check]:
        def add(violations: _Check) -> _Check:
            # Its file's name, with hyphens.
            name = violations.__module__.rpartition(".")[2].replace("_", "-")

            def validate(args: Any, report: ReportViolation) -> None:
                for message, urn in judged(violations, kinds, args):
                    _note(name, args.urn if urn is None else urn)
                    report(message, urn)

            KINDS[name] = kinds
            schema = PolicyConfigSchema(dict(parameters)) if parameters else None
            POLICIES[name] = policy(name, description, validate, level, schema, severity=severity)
            return violations

        return add

    return decorator


def _of_resource(violations: _ResourceCheck, kinds: tuple[str, ...], args: Resource) -> Iterator[tuple[str, None]]:
    return ((message, None) for message in (violations(args) if is_of(args.resource_type, kinds) else ()))


resource_rule = _rule(ResourceValidationPolicy, _of_resource)
"""Makes a rule about single resources of a function that yields what is wrong with one, each with its fix.

Args:
    description: what holds, as a sentence.
    severity: how bad a violation is.
    kinds: type tokens of the resources that it covers; `*` and `[]` are wildcards.
    level: enforcement level unless the pack's config says otherwise.
    parameters: what the pack's config may set.
"""
stack_rule = _rule(StackValidationPolicy, lambda violations, kinds, args: violations(args))
"""The same of a function that sees the whole stack, and yields the URN of the resource with each violation."""


def parameter(args: Resource | Stack, name: str) -> Any:
    """A parameter of a rule. The engine fills in the defaults; whole numbers arrive as floats."""
    value = args.get_config().get(name)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _note(rule: str, urn: str) -> None:
    waiver = waivers.covering(waivers.read(settings())[0], rule, urn, waivers.today())
    if waiver:
        waivers.used.add(waiver)
