"""The stack of an AWS account."""

import pulumi

from components.aws.account import account_of
from components.aws.bootstrap import AwsBootstrap, AwsBootstrapArgs
from components.aws.ci.ci import AwsCi, AwsCiArgs
from components.base import as_args
from components.config.bootstrap_models import BootstrapConfig
from components.protection import Protection, ProtectionArgs


def make(config: BootstrapConfig) -> AwsBootstrap:
    """Make an account's resources, and CI's identities if there are settings for them."""
    tags = {"tidemill:account": "bootstrap"}
    account = AwsBootstrap(
        "tidemill",
        AwsBootstrapArgs(
            service_linked_roles=config.service_linked_roles,
            purge=config.purge,
            tags=tags,
            replica=config.replica,
            purge_replica=config.purge_replica,
        ),
    )
    made: list[pulumi.Resource] = [account]
    if account.replica_url is not None:
        pulumi.export("replica_url", account.replica_url)
    if config.ci:
        own = {
            "state_arn": account.state_arn,
            "key_arn": account.key_arn,
            "replica_arn": account.replica_arn,
            "tags": tags,
        }
        roles = AwsCi("tidemill-ci", as_args(AwsCiArgs, {**config.ci.model_dump(exclude_unset=True), **own}))
        login = {"preview": roles.preview_role_arn, "deploy": roles.deploy_role_arns}
        # CI logs in to a stack's region, and the state may be in another one.
        backend = pulumi.Output.concat(account.backend_url, "?region=", account_of(account).region)
        pulumi.export("ci", {"backend_url": backend, **login})
        pulumi.export("permission_boundaries", roles.boundary_arns)
        made.append(roles)
    last = pulumi.ResourceOptions(depends_on=made)
    Protection("tidemill", ProtectionArgs(config.purge, "tidemill-bootstrap:purge"), last)
    return account
