"""The fields of a regional managed instance group, and the defaults of those that are left out."""

from __future__ import annotations

from collections.abc import Callable

from localcloud.gcp.compute.managed import Json

DISRUPTION = ("NONE", "REFRESH", "RESTART", "REPLACE")


class GroupFields:
    """What an InstanceGroupManager says at this moment.

    Args:
        read: Returns the current resource.
    """

    def __init__(self, read: Callable[[], Json]) -> None:
        self._read = read

    @property
    def template(self) -> str:
        """URL of the template of new VMs."""
        fields = self._read()
        versions = fields.get("versions") or [{}]
        return versions[0].get("instanceTemplate") or fields["instanceTemplate"]

    @property
    def base(self) -> str:
        """The beginning of its VMs' names."""
        return self._read().get("baseInstanceName") or self._read().get("name", "vm")

    @property
    def shape(self) -> str:
        """How it spreads VMs over zones."""
        return self._read().get("distributionPolicy", {}).get("targetShape", "EVEN")

    @property
    def zones(self) -> list[str]:
        """Zones where it may create VMs."""
        zones = self._read().get("distributionPolicy", {}).get("zones", [])
        region = self._read()["region"].rpartition("/")[2]
        return [each["zone"].rpartition("/")[2] for each in zones] or [f"{region}-{letter}" for letter in "abc"]

    @property
    def repairs(self) -> bool:
        """Whether it creates anew what went off."""
        return self._lifecycle("defaultActionOnFailure", "REPAIR") == "REPAIR"

    @property
    def updates_on_repair(self) -> bool:
        """Whether a repair takes the current template."""
        return self._lifecycle("forceUpdateOnRepair", "NO") == "YES"

    def _lifecycle(self, name: str, default: str) -> str:
        return self._read().get("instanceLifecyclePolicy", {}).get(name, default)

    @property
    def replaces(self) -> bool:
        """Whether it replaces running VMs of another template."""
        most = DISRUPTION.index(self._update.get("mostDisruptiveAllowedAction", "REPLACE"))
        return self._update.get("type") == "PROACTIVE" and most >= DISRUPTION.index("REPLACE")

    @property
    def keeps_names(self) -> bool:
        """Whether a replaced VM keeps its name."""
        return self._update.get("replacementMethod") == "RECREATE"

    @property
    def redistributes(self) -> bool:
        """Whether it moves running VMs to keep zones even."""
        policy = self._update.get("instanceRedistributionType", "PROACTIVE")
        return policy == "PROACTIVE" and self.shape in ("EVEN", "BALANCED")

    @property
    def _update(self) -> Json:
        return self._read().get("updatePolicy", {})

    def at_once(self, target: int) -> int:
        """How many VMs it replaces at a time. Each limit is a number or a percentage, and one per zone by default."""

        def limit(name: str) -> int:
            given = self._update.get(name, {"fixed": len(self.zones)})
            return int(given["fixed"]) if "fixed" in given else -(-target * int(given["percent"]) // 100)

        return max(limit("maxSurge") + limit("maxUnavailable"), 1)

    def ranked(self, properties: Json) -> list[list[str]]:
        """Machine types to try for a template: lists of equal preference, most preferred first."""
        selections = self._read().get("instanceFlexibilityPolicy", {}).get("instanceSelections", {})
        if not selections:
            return [[properties["machineType"].rpartition("/")[2]]]
        ranks: dict[int, list[str]] = {}
        for each in selections.values():
            ranks.setdefault(int(each.get("rank", 0)), []).extend(each["machineTypes"])
        return [ranks[rank] for rank in sorted(ranks)]
