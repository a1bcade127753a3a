"""The config of the platform team's shared stack: the keys ``tidemill-shared:<field of SharedConfig>``."""

import re
from typing import Annotated, Literal

from pydantic import Field

from ..rooms import DEFAULT, CloudName, cloud_room
from .checks.common import check_range
from .checks.tags import check_each, check_together
from .home_files import HomeProject
from .model import Model
from .network_models import NewNetwork
from .registry_models import Images
from .types import matching, unique

_SERVICE = matching(re.compile(r"[a-z0-9][a-z0-9.-]{0,62}"), "the name of a service's endpoint, such as secretsmanager")


class NewSharedNetwork(NewNetwork):
    """A VPC for the stacks of several teams."""

    egress: Literal["nat", "endpoints"] = Field(  # type: ignore[assignment]
        default="nat",
        description="How machines reach the internet; they have no public addresses. `nat`: one NAT gateway, about $33 "
        "per month idle (GCP: Cloud NAT, about $4 for its address). `endpoints`: no internet; on AWS 6 or more "
        "interface endpoints, each about $7 per month and zone idle; on GCP Private Google Access, nothing idle.",
    )
    extra_endpoints: Annotated[list[Annotated[str, _SERVICE]], unique] = Field(
        default=[],
        description="AWS with egress endpoints: services that the teams' queues need besides Batch's own, such as "
        "secretsmanager; each about $7 per month and zone idle.",
    )


class SharedConfig(Model):
    """The keys ``tidemill-shared:<field>`` of a shared stack's file."""

    cloud: CloudName = Field(default=DEFAULT, description="The stack's cloud.")
    network: NewSharedNetwork = Field(default=NewSharedNetwork(), description="The machines' network.")
    registry: Images = Field(default=Images(), description="The image repositories.")
    tags: dict[str, str] = Field(
        default={},
        description="Your company's own tags (on GCP labels) of everything that the stack makes. Quote numbers.",
    )
    purge: bool = Field(default=False, description="Lift protection, and let destroy delete the images.")


def _check(config: SharedConfig, _region: str | None) -> None:
    check_range(config.network, ["network"])
    cloud_room(config.cloud, "checks").check_shared(config)
    check_each(["tags"], config.tags, config.cloud)
    check_together(["tags"], config.tags, config.cloud)


PROJECT = HomeProject("tidemill-shared", SharedConfig, _check)
