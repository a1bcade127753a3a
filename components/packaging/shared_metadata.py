"""Fills in what both distributions share: `components/pyproject.toml` leaves it to the repository's own."""

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PLATFORM = ("pulumi", "pulumi-policy", "pyyaml")
"""Of the dependency group `platform`: what the components and the policy pack import. The rest is for operators and
localcloud."""


class SharedMetadata(MetadataHookInterface):
    """Reads version, license, Python and ranges of dependencies from the repository's `pyproject.toml`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the fields. A source distribution has them already, in its `PKG-INFO`."""
        if not metadata.get("dynamic"):
            return
        document = tomllib.loads((Path(self.root).parent / "pyproject.toml").read_text(encoding="utf-8"))
        project, groups = document["project"], document["dependency-groups"]
        metadata["version"] = project["version"]
        metadata["license"] = project["license"]
        metadata["requires-python"] = project["requires-python"]
        metadata["dependencies"] = [
            f"{project['name']}=={project['version']}",
            *(_range(groups["platform"], name) for name in PLATFORM),
            *(_range(project["dependencies"], name) for name in ("cronsim", "pydantic")),
        ]
        # An extra for each cloud, with its SDK.
        metadata["optional-dependencies"] = {
            name: [each]
            for name, listed in groups.items()
            for each in listed
            if isinstance(each, str) and each.startswith(f"pulumi-{name}>=")
        }


def _range(requirements: list[Any], name: str) -> str:
    """The requirement of a name, among others and included groups."""
    return next(each for each in requirements if isinstance(each, str) and each.startswith(f"{name}>="))
