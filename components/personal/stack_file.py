"""The stack file of a personal pipeline: written once, and the person's own from then on."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from pulumi import automation

from ..config import StackConfig, from_file
from ..config.load import read_file
from ..rooms import DEFAULT, cloud_room

ENVIRONMENT = "personal"
QUEUE = "cpu"
IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"
"""Python 3.11 of Docker's official images."""
_HEAD = """\
# Written by `tidemill up`, and yours to edit: the next `tidemill up` shows what an edit would change, and asks.
# docs/stack-keys.md of Tidemill lists every key.
"""
_BOUND = ("secretsprovider:", "encryptedkey:", "encryptionsalt:")
"""Lines that tie the file to a key."""


@dataclass(frozen=True)
class StackOptions:
    """Settings of `tidemill up` in the file; None leaves one as it is."""

    email: str | None = None
    budget: int | None = None
    max_cpus: int | None = None
    image: str | None = None
    worker_image: str | None = None
    billing_account: str | None = None

    def assignments(self) -> dict[str, automation.ConfigValue]:
        """The values by their paths in a stack file."""
        paths = {
            "tidemill:budget.monthly_usd": self.budget,
            "tidemill:budget.notify[0]": self.email,
            "tidemill:budget.billing_account": self.billing_account,
            "tidemill:monitoring.notify[0]": self.email,
            "tidemill:worker_image": self.worker_image,
            f"tidemill:queues.{QUEUE}.images.default": self.image,
            f"tidemill:queues.{QUEUE}.capacity[0].max_cpus": self.max_cpus,
        }
        return {path: automation.ConfigValue(str(value)) for path, value in paths.items() if value is not None}


def name_of(team: str, cloud: str) -> str:
    """The name of a person's stack, as of any team's."""
    return f"{team}-{ENVIRONMENT}" if cloud == DEFAULT else f"{team}-{cloud}-{ENVIRONMENT}"


class StackFile:
    """A stack file in a folder.

    Args:
        folder: Which also has the project's file.
        team: The person, as the pipeline's team.
        cloud: The pipeline's cloud.
    """

    def __init__(self, folder: Path, team: str, cloud: str) -> None:
        self.folder, self.team, self.cloud = folder, team, cloud
        self.stack = name_of(team, cloud)
        self.path = folder / f"Pulumi.{self.stack}.yaml"

    def write(self, account: str, region: str, options: StackOptions) -> None:
        """Write the file; nothing if a value is wrong.

        Raises:
            ConfigError: A value is wrong.
        """
        room = cloud_room(self.cloud, "personal")
        notify = options.email and [options.email]
        budget = {"monthly_usd": options.budget, "notify": notify, "billing_account": options.billing_account}
        config = {
            **room.keys(account, region),
            "tidemill:team": self.team,
            "tidemill:environment": ENVIRONMENT,
            "tidemill:cloud": self.cloud,
            "tidemill:budget": {key: value for key, value in budget.items() if value is not None},
            "tidemill:monitoring": {"notify": [options.email]},
            **room.MORE,
            **({"tidemill:worker_image": options.worker_image} if options.worker_image else {}),
            "tidemill:queues": {
                QUEUE: {
                    "images": {"default": options.image or IMAGE},
                    "capacity": [{"market": "spot", "max_cpus": options.max_cpus}],
                }
            },
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text(_HEAD + yaml.safe_dump({"config": config}, sort_keys=False), encoding="utf-8")
        try:
            self.config()
        except BaseException:
            self.path.unlink()
            raise

    def config(self) -> StackConfig:
        """The file's config, checked.

        Raises:
            ConfigError: It is wrong.
        """
        return from_file(self.path)

    def place(self) -> tuple[str, str]:
        """The account and the region in the file; empty where it names none."""
        return cloud_room(self.cloud, "personal").place(read_file(self.path)["config"])

    @property
    def bound(self) -> bool:
        """True if the file is there, and tied to a key."""
        return self.path.exists() and any(line.startswith(_BOUND) for line in self._lines())

    def unbind(self) -> None:
        """Take out what ties the file to a key that is deleted, so that the next `up` can use it again."""
        if self.path.exists():
            kept = "".join(each for each in self._lines() if not each.startswith(_BOUND))
            self.path.write_text(kept, encoding="utf-8")

    def _lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines(keepends=True)
