"""Room for VMs: what the cloud can give at the moment (a stockout), and what the project may use (a quota)."""

from __future__ import annotations

from dataclasses import dataclass

STOCKOUT, QUOTA = "ZONE_RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED"
NO_ADDRESS = "IP_SPACE_EXHAUSTED"


@dataclass(frozen=True)
class Room:
    """The room that a VM takes."""

    zone: str
    machine_type: str
    spot: bool


@dataclass(frozen=True)
class Limit:
    """At most ``count`` matching VMs at once; ``machine_type`` is a prefix of the type, such as a family."""

    count: int
    code: str = STOCKOUT
    spot: bool | None = None
    zone: str = ""
    machine_type: str = ""

    def covers(self, room: Room) -> bool:
        return (
            self.spot in (None, room.spot)
            and self.zone in ("", room.zone)
            and room.machine_type.startswith(self.machine_type)
        )

    def text(self, room: Room) -> str:
        if self.code == QUOTA:
            return f"Quota 'CPUS' exceeded. Limit: {self.count} machines in region {room.zone.rpartition('-')[0]}."
        if self.code == NO_ADDRESS:
            return f"IP space of the subnetwork of {room.zone} is exhausted."
        return (
            f"The zone 'zones/{room.zone}' does not have enough resources available to fulfill the request "
            f"for {room.machine_type}. Try a different zone, or try again later."
        )


class Capacity:
    """All VMs that hold room, and the current limits. Lowering a limit removes no VM."""

    def __init__(self) -> None:
        self.limits: list[Limit] = []
        self._held: dict[Room, int] = {}

    def refusal(self, room: Room) -> tuple[str, str] | None:
        """Code and message if there is no room, otherwise None."""
        for limit in self.limits:
            if limit.covers(room) and sum(n for held, n in self._held.items() if limit.covers(held)) >= limit.count:
                return limit.code, limit.text(room)
        return None

    def take(self, room: Room) -> None:
        self._held[room] = self._held.get(room, 0) + 1

    def give(self, room: Room) -> None:
        self._held[room] -= 1
