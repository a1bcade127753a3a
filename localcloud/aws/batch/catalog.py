"""What Batch's catalogues of named resources have in common: ARNs, states and pages."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from localcloud.aws.batch.core import BatchError, Json, arn, invalid

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")
Found = TypeVar("Found")


def valid_name(name: str, what: str) -> str:
    """Return ``name`` if Batch accepts it; raise the error otherwise."""
    if not NAME.match(name):
        raise invalid(
            f"{what} {name!r} must be 1 to 128 letters, digits, hyphens and "
            f"underscores, and begin with a letter or digit."
        )
    return name


def must_be_settled(detail: Json, verb: str) -> None:
    """Refuse to change a resource that is still changing."""
    if detail["status"] in ("CREATING", "UPDATING", "DELETING"):
        raise BatchError(f"Cannot {verb}, resource is being modified.")


class Catalog(dict[str, Found]):
    """Resources of one kind, by ARN.

    Args:
        kind: As in the ARN, such as ``job-queue``.
        title: As in Batch's errors, such as ``Job queue``.
    """

    def __init__(self, kind: str, title: str) -> None:
        super().__init__()
        self._kind, self._title = kind, title

    def free(self, name: str, region: str) -> str:
        """Return the ARN of a new resource of this name.

        Raises:
            BatchError: There is one already.
        """
        identity = arn(region, self._kind, name)
        if identity in self:
            raise BatchError("Object already exists", status=409)
        return identity

    def find(self, name: str, region: str) -> Found:
        """Return the resource with a name or an ARN.

        Raises:
            BatchError: There is none.
        """
        return self.at(self._identity(name, region), name)

    def at(self, identity: str, name: str = "") -> Found:
        """Return the resource with an ARN; likewise."""
        if identity not in self:
            raise BatchError(f"{self._title} {name or identity} does not exist")
        return self[identity]

    def chosen(self, names: list[str] | None, region: str) -> list[Found]:
        """Return those with these names or ARNs that exist, or all of the region."""
        if names:
            return [self[each] for name in names if (each := self._identity(name, region)) in self]
        return [each for identity, each in self.items() if f":{region}:" in identity]

    def _identity(self, name: str, region: str) -> str:
        return name if name.startswith("arn:") else arn(region, self._kind, name)


def page(key: str, found: list[Any], p: Json, most: int = 100) -> Json:
    """Return one page: ``maxResults`` of ``found``, starting at ``nextToken``."""
    token = p.get("nextToken") or "0"
    if not token.isdigit():
        raise invalid(f"nextToken {token!r} is not one of ours.")
    start = int(token)
    end = start + max(1, min(p.get("maxResults") or most, most))
    return {key: found[start:end]} | ({"nextToken": str(end)} if end < len(found) else {})
