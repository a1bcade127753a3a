"""The settings of a state machine's test: the same walks in every run, and nothing kept between runs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def stateful(examples: int, steps: int) -> settings:
    """The settings for this many walks of this many steps."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
