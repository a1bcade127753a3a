"""The one project of an emulated GCP: its names, clock and credentials, and what exists in it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from localcloud.gcp.clock import Clock
from localcloud.gcp.iam import Policy
from localcloud.gcp.resources import Resources
from localcloud.gcp.tokens import Tokens

PROJECT, NUMBER, REGION = "localcloud-project", "123456789012", "us-central1"


class Project:
    """A project without its services.

    Attributes:
        project, number, region: The project's id and number, and the region of the settings.
        state: Folder of credentials, logs and service data.
        url: Address of the daemon, `http://127.0.0.1:PORT`.
        options: The daemon's options.
    """

    def __init__(self, options: argparse.Namespace, port: int) -> None:
        self.options = options
        self.state: Path = options.state.resolve()
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.project, self.number, self.region = PROJECT, NUMBER, REGION
        self.clock = Clock(options.time_factor)
        self.resources = Resources()
        self.tokens = Tokens(options.token_seconds)
        self.policy = Policy(self.resources, self.project, self.clock)

    def full_name(self, api: str, name: str) -> str:
        """A resource's full name in `resources`: the project appears by id, a bucket as `projects/_/buckets/b`."""
        name = re.sub(r"^b(?:/|$)", "projects/_/buckets/", name).rstrip("/") if api == "storage" else name
        name = re.sub(r"^(projects/_/buckets/[^/]+)/o(?:/|$)", r"\1/objects/", name)
        name = re.sub(rf"^projects/(?:{self.number}|-)(?=/|$)", f"projects/{self.project}", name)
        return f"{api}/{name}".rstrip("/")

    def account_exists(self, email: str) -> bool:
        return self.resources.get(f"iam/projects/{self.project}/serviceAccounts/{email}") is not None

    def owner(self) -> str:
        """The principal as which Google itself reads and writes in the project: it needs no grant there."""
        bindings = self.resources.policy(f"cloudresourcemanager/projects/{self.project}")["bindings"]
        return next(binding["members"][0] for binding in bindings if binding["role"] == "roles/owner")
