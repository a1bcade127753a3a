"""Makes a rule from a plain function: its name comes from the file, and violations are recorded for the waivers."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
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
MANDATORY, ADVISORY = EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY


@cache
def is_of(kind: str, kinds: tuple[str, ...]) -> bool:
    """Whether a rule covers a type token."""
    return any(fnmatchcase(kind, pattern) for pattern in kinds)


def name_of(module: str) -> str:
    """A rule's name: its file's, with hyphens."""
    return module.rpartition(".")[2].replace("_", "-")


def resource_rule(
    module: str,
    *kinds: str,
    violations: Callable[[ResourceValidationArgs], Iterator[str]],
    description: str,
    severity: Severity,
    level: EnforcementLevel = MANDATORY,
    parameters: Parameters | None = None,
) -> ResourceValidationPolicy:
    """A rule about single resources, which sees their inputs.

    Args:
        module: ``__name__`` of the rule's module.
        kinds: type tokens of the resources that it covers; `*` and `[]` are wildcards.
        violations: yields what is wrong with a resource, each with its fix.
        description: what holds, as a sentence.
        severity: how bad a violation is.
        level: enforcement level unless the pack's config says otherwise.
        parameters: what the pack's config may set.
    """
    name = name_of(module)

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if is_of(args.resource_type, kinds):
            for message in violations(args):
                _note(name, args.urn)
                report(message, None)

    KINDS[name] = kinds
    schema = PolicyConfigSchema(dict(parameters)) if parameters else None
    return ResourceValidationPolicy(name, description, validate, level, schema, severity=severity)


def stack_rule(
    module: str,
    *kinds: str,
    violations: Callable[[StackValidationArgs], Iterator[tuple[str, str]]],
    description: str,
    severity: Severity,
    level: EnforcementLevel = MANDATORY,
    parameters: Parameters | None = None,
) -> StackValidationPolicy:
    """A rule about how resources relate, which sees the whole stack.

    Args:
        module: ``__name__`` of the rule's module.
        kinds: type tokens of the resources that can violate it.
        violations: yields (what is wrong with its fix, URN of the resource).
        description: what holds, as a sentence.
        severity: how bad a violation is.
        level: enforcement level unless the pack's config says otherwise.
        parameters: what the pack's config may set.
    """
    name = name_of(module)

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        for message, urn in violations(args):
            _note(name, urn)
            report(message, urn)

    KINDS[name] = kinds
    schema = PolicyConfigSchema(dict(parameters)) if parameters else None
    return StackValidationPolicy(name, description, validate, level, schema, severity=severity)


KINDS: dict[str, tuple[str, ...]] = {}
"""The type tokens that each rule covers, by rule name."""


def parameter(args: ResourceValidationArgs | StackValidationArgs, name: str) -> Any:
    """A parameter of a rule. The engine fills in the defaults; whole numbers arrive as floats."""
    value = args.get_config().get(name)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _note(rule: str, urn: str) -> None:
    found = waivers.covering(waivers.read(settings())[0], rule, urn, waivers.today())
    if found:
        waivers.used.add(found)
