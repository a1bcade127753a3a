"""Homes: the buckets with the state of personal pipelines, as an account has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.errors import CloudError

_SUFFIX = r"-state-bucket-[0-9a-f]{7}"
"""What the components and the engine add to a home's name."""


@dataclass(frozen=True)
class FoundHome:
    """A bucket for state.

    Attributes:
        bucket: Its name.
        region: Where it is.
        backend: Its URL as a backend of Pulumi.
        secrets_provider: Its key as Pulumi names it; empty for a bucket that is half made.
    """

    bucket: str
    region: str
    backend: str
    secrets_provider: str


def home_name(team: str) -> str:
    """The name of a person's home, with which the bucket's begins."""
    return f"tidemill-{team}"


def only_bucket(team: str, names: Iterable[str]) -> str | None:
    """The bucket of a person's home among an account's; None where there is none.

    Raises:
        CloudError: There are several.
    """
    found = sorted(name for name in names if re.fullmatch(re.escape(home_name(team)) + _SUFFIX, name))
    if len(found) > 1:
        raise CloudError(
            f"The account has {len(found)} buckets for the state of {team}: {', '.join(found)}.",
            "Two first `tidemill up` ran at once. Look into them, and delete the one without a state of your pipeline.",
        )
    return found[0] if found else None
