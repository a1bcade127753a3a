"""Every resource that exists, by full name: `<api>/<path of the API without its version>`.

Examples: `pubsub/projects/p/topics/t`, `compute/projects/p/zones/z/instances/i`, `storage/projects/_/buckets/b`. The
IAM policy of a resource is stored with it (`policy`, `set_policy`) and removed with it.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

Value = dict[str, Any]


class Resources:
    """Thread-safe; values are copied on the way in and out, except `bindings`."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._policies: dict[str, Value] = {}
        self.lock = threading.RLock()

    def get(self, name: str) -> Value | None:
        """The resource, None when there is none."""
        with self.lock:
            return copy.deepcopy(self._values.get(name))

    def put(self, name: str, value: Value) -> None:
        """Store it, whether new or already there."""
        with self.lock:
            self._values[name] = copy.deepcopy(value)

    def change(self, name: str, change: Callable[[Value], None]) -> Value | None:
        """Let a function change the resource in place under the lock. Returns None if the resource does not exist."""
        with self.lock:
            if name in self._values:
                change(self._values[name])
            return self.get(name)

    def delete(self, name: str) -> Value | None:
        """Remove it with its policy and everything below it. Returns the old value, None if it did not exist."""
        with self.lock:
            found = self._values.pop(name, None)
            for table in (self._values, self._policies):
                for key in [key for key in table if key == name or key.startswith(f"{name}/")]:
                    del table[key]
            return found

    def list(self, collection: str) -> list[tuple[str, Value]]:
        """(full name, resource) of the direct children of `pubsub/projects/p/topics`, by name.

        A `-` in place of a location or zone stands for every one, as in Google's APIs.
        """
        wanted = collection.split("/")
        with self.lock:
            found = [name for name in self._values if _below(name.split("/"), wanted)]
            return [(name, copy.deepcopy(self._values[name])) for name in sorted(found)]

    def names(self, prefix: str = "") -> list[str]:
        """The full names that start with a prefix."""
        with self.lock:
            return sorted(name for name in self._values if name.startswith(prefix))

    def policy(self, name: str) -> Value:
        """The IAM policy of a resource: `{"bindings": [...], "etag": ...}`."""
        with self.lock:
            return copy.deepcopy(self._policies.get(name) or {"version": 1, "etag": "ACAB", "bindings": []})

    def bindings(self, name: str) -> list[Value]:
        """The bindings of a resource's policy. They are read-only: `set_policy` replaces them."""
        return (self._policies.get(name) or {}).get("bindings", [])

    def set_policy(self, name: str, policy: Value) -> None:
        with self.lock:
            self._policies[name] = copy.deepcopy(policy)


def _below(name: list[str], collection: list[str]) -> bool:
    pairs = zip(name, collection, strict=False)
    return len(name) == len(collection) + 1 and all(wanted in (part, "-") for part, wanted in pairs)
