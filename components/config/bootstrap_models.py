"""The config of the bootstrap stack: the keys ``tidemill-bootstrap:<field of BootstrapConfig>``."""

import re
from typing import Annotated, Any

from pydantic import Field, field_validator

from ..ci import AwsCiModel
from ..rooms import DEFAULT, CloudName, cloud_room
from .home_files import HomeProject
from .model import Model
from .types import matching, unique

_SERVICE = matching(re.compile(r"[a-z0-9.-]+\.amazonaws\.com(\.cn)?"), "a service such as batch.amazonaws.com")
_API = matching(re.compile(r"[a-z0-9-]+\.googleapis\.com"), "an API such as compute.googleapis.com")
_PROVIDER = matching(re.compile(r"arn:[\w-]+:iam::\d{12}:oidc-provider/.+"), "the ARN of an identity provider of IAM")


class BootstrapCi(AwsCiModel):
    """CI's identities."""

    provider_arn: Annotated[str, _PROVIDER] | None = Field(
        default=None, description="AWS: the identity provider of the host of the code, if the account has one already."
    )


class BootstrapConfig(Model):
    """The keys ``tidemill-bootstrap:<field>`` of a bootstrap stack's file."""

    cloud: CloudName = Field(default=DEFAULT, description="The stack's cloud.")
    service_linked_roles: Annotated[list[Annotated[str, _SERVICE]], unique] = Field(
        default=["batch.amazonaws.com", "spot.amazonaws.com"],
        description="AWS: services whose service-linked role is made; leave out those that the account has already.",
    )
    services: Annotated[list[Annotated[str, _API]], unique] = Field(
        default=[], description="GCP: APIs to enable, in place of all that pipelines need."
    )
    purge: bool = Field(default=False, description="Lift the protection of the state bucket, and let destroy empty it.")
    replica: str | None = Field(
        default=None,
        description="AWS: another region, which gets a copy of the state bucket (docs/upgrading.md). Costs $1 per "
        "month for its key, its storage, and about $0.02 per GB written.",
    )
    purge_replica: bool = Field(
        default=False,
        description="AWS: lift the protection of the replica alone. After one `pulumi up`, remove it together with "
        "`replica`, or name another region there.",
    )
    ci: BootstrapCi | None = Field(default=None, description="CI's identities; docs/ci.md.")

    @field_validator("ci", "replica", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        """The project's default is empty."""
        return value or None


def _check(config: BootstrapConfig, region: str | None) -> None:
    cloud_room(config.cloud, "checks").check_bootstrap(config, region)


PROJECT = HomeProject(
    "tidemill-bootstrap", BootstrapConfig, _check, renamed={"serviceLinkedRoles": "service_linked_roles"}
)
