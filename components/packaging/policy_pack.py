"""Adds the repository's policy pack, which lies beside this folder, to both distributions."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_KINDS = {".json", ".py", ".yaml"}
"""A developer's folder has other files beside."""


class PolicyPack(BuildHookInterface):
    """Puts it beside the components: a source distribution has it in its root, from which the wheel has it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files."""
        root = Path(self.root)
        pack = next(folder for folder in (root / "policy", root.parent / "policy") if folder.is_dir())
        for path in sorted(pack.rglob("*")):
            if path.suffix in _KINDS:
                build_data["force_include"][str(path)] = f"policy/{path.relative_to(pack)}"
