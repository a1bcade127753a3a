"""Makes a rule from a plain function: its name comes from the file, and it records violations for the waivers."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

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
_StackCheck = Callable[[Stack], StackViolations]
MANDATORY, ADVISORY = EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY


@cache
def is_of(kind: str, kinds: tuple[str, ...]) -> bool:
    """True if a rule covers a type token."""
    return any(fnmatchcase(kind, pattern) for pattern in kinds)


KINDS: dict[str, tuple[str, ...]] = {}
"""The type tokens that each rule covers, by rule name."""
POLICIES: dict[str, Policy] = {}
"""The rules by name."""


def resource_rule(
    description: str,
    severity: Severity,
    *kinds: str,
    level: EnforcementLevel = MANDATORY,
    parameters: Parameters | None = None,
) -> Callable[[_ResourceCheck], _ResourceCheck]:
    """Make a rule about single resources of a function that yields what is wrong with one, each with its fix.

    Args:
        description: what holds, as a sentence.
        severity: how bad a violation is.
        kinds: type tokens of the resources that it covers; `*` and `[]` are wildcards.
        level: enforcement level unless the pack's config says otherwise.
        parameters: what the pack's config may set.
    """

    def add(violations: _ResourceCheck) -> _ResourceCheck:
        name = _register(violations, kinds)

        def validate(args: Resource, report: ReportViolation) -> None:
            if is_of(args.resource_type, kinds):
                for message in violations(args):
                    _note(name, args.urn)
                    report(message, None)

        schema = PolicyConfigSchema(dict(parameters)) if parameters else None
        POLICIES[name] = ResourceValidationPolicy(name, description, validate, level, schema, severity=severity)
        return violations

    return add


def stack_rule(
    description: str,
    severity: Severity,
    *kinds: str,
    level: EnforcementLevel = MANDATORY,
    parameters: Parameters | None = None,
) -> Callable[[_StackCheck], _StackCheck]:
    """Make a rule about how resources relate of a function that sees the whole stack.

    The arguments are those of `resource_rule`; the function yields the URN of the resource with each violation.
    """

    def add(violations: _StackCheck) -> _StackCheck:
        name = _register(violations, kinds)

        def validate(args: Stack, report: ReportViolation) -> None:
            for message, urn in violations(args):
                _note(name, urn)
                report(message, urn)

        schema = PolicyConfigSchema(dict(parameters)) if parameters else None
        POLICIES[name] = StackValidationPolicy(name, description, validate, level, schema, severity=severity)
        return violations

    return add


def _register(violations: Callable[..., object], kinds: tuple[str, ...]) -> str:
    """The rule's name: its file's, with hyphens."""
    name = violations.__module__.rpartition(".")[2].replace("_", "-")
    KINDS[name] = kinds
    return name


def parameter(args: Resource | Stack, name: str) -> Any:
    """A parameter of a rule. The engine fills in the defaults; whole numbers arrive as floats."""
    value = args.get_config().get(name)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _note(rule: str, urn: str) -> None:
    waiver = waivers.covering(waivers.read(settings())[0], rule, urn, waivers.today())
    if waiver:
        waivers.used.add(waiver)
