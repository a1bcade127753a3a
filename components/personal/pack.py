"""The policy pack for runs of the engine."""

import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).resolve().parents[1]
_PACK = next(folder for folder in (_HERE / "policy", _HERE.parent / "policy") if folder.is_dir())
"""In the wheel it lies among the components, in a checkout beside them."""


def policies(folder: Path, environment: str) -> dict[str, Any]:
    """Lay the policy pack out in a folder; returns the options of a preview or an up that it judges."""
    pack = folder / "policy"
    if not pack.exists():
        shutil.copytree(_PACK, pack, ignore=shutil.ignore_patterns("__pycache__"))
        settings = yaml.safe_load((pack / "PulumiPolicy.yaml").read_text())
        settings["runtime"] = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
        if sys.prefix == sys.base_prefix:
            settings["runtime"] = "python"
        (pack / "PulumiPolicy.yaml").write_text(yaml.safe_dump(settings))
    own = pack / "environments" / f"{environment}.json"
    config = own if own.exists() else own.with_name("default.json")
    return {"policy_packs": [str(pack)], "policy_pack_configs": [str(config)]}
