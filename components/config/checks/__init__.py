"""Rules of a stack's config that need more than one key, or that only one cloud has. Each raises `ConfigError`."""

from __future__ import annotations

from components.config.checks import aws, gcp
from components.config.checks.common import check_stack
from components.config.checks.images import repository_of, shared_repository_of
from components.config.checks.waivers import check_waivers
from components.config.models import StackConfig

__all__ = ["check", "repository_of", "shared_repository_of"]

_RULES = {"aws": (aws.check_stack, aws.check_queue), "gcp": (gcp.check_stack, gcp.check_queue)}


def check(config: StackConfig) -> None:
    """Raise a `ConfigError` for the first rule that a config violates.

    Keys of the other cloud come first: they often explain the rest.
    """
    stack_rules, queue_rules = _RULES[config.cloud]
    stack_rules(config)
    check_stack(config)
    check_waivers(config)
    for name, queue in config.queues.items():
        queue_rules(config, ("queues", name), queue)
