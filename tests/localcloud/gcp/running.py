"""A GCP in this process, and calls as its owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from localcloud.gcp import seed
from localcloud.gcp.project import PROJECT
from localcloud.gcp.serve import GcpDaemon, parse

OWNER = f"serviceAccount:{seed.DEPLOYER}"
BASE = f"projects/{PROJECT}"


class RunningGcp(GcpDaemon):
    """A daemon that ends with a `with` block. Options are the daemon's, with underscores."""

    def __init__(self, state: Path, **options: object) -> None:
        flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        super().__init__(parse(["--state", str(state), *flags]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, api: str, method: str, path: str, body: Any = None, principal: str = OWNER) -> Any:
        """Call an API, as the owner or as another principal. Returns its JSON."""
        return self.site.call(principal, api, method, path, body)
