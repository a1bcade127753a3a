"""The home of a personal pipeline in an AWS account."""

from __future__ import annotations

import os

from tidemill.clouds.aws.login import check_login
from tidemill.clouds.aws.session import client, default_session, translated
from tidemill.clouds.homes import FoundHome, only_bucket
from tidemill.errors import CallerError, CloudError

_ROLES = ("batch.amazonaws.com", "spot.amazonaws.com")
"""Source: as of `SERVICES` in components/aws/bootstrap.py."""

BILLING_ACCOUNTS = None
"""An account pays for itself."""


def log_in(account: str, region: str) -> tuple[str, str]:
    """The account of the login, and the region.

    Args:
        account: Empty: AWS tells it.
        region: The region that the caller names, or empty for that of their AWS profile.

    Raises:
        CloudError: There is no valid login.
        CallerError: No region is named.
    """
    session = default_session()
    finding, number = check_login(session)
    if number is None:
        raise CloudError(finding.detail, command=finding.command)
    if not (region or session.region_name):
        raise CallerError("No region is named.", "Give --region, such as us-west-2.", what="--region")
    return number, region or str(session.region_name)


def find_home(team: str, account: str) -> FoundHome | None:
    """The home of a person's pipeline, in any region; None where there is none.

    Raises:
        CloudError: The login may not look, or somebody else has the bucket now.
    """
    session = default_session()
    s3 = client("s3", session.region_name or "us-east-1", session)
    with translated("s3:ListAllMyBuckets"):
        bucket = only_bucket(team, (each["Name"] for each in s3.list_buckets()["Buckets"]))
    if bucket is None:
        return None
    # Another account may have taken the name of a bucket that was deleted a moment ago.
    owned = {"Bucket": bucket, "ExpectedBucketOwner": account}
    with translated("s3:GetBucketLocation"):
        region = s3.get_bucket_location(**owned)["LocationConstraint"] or "us-east-1"
    key = ""
    with translated("s3:GetEncryptionConfiguration", absent=("ServerSideEncryptionConfigurationNotFoundError",)):
        found = client("s3", region, session).get_bucket_encryption(**owned)
        default = found["ServerSideEncryptionConfiguration"]["Rules"][0]["ApplyServerSideEncryptionByDefault"]
        key = default.get("KMSMasterKeyID", "")
    # A stand-in for S3 has one name for all buckets.
    style = "&use_path_style=true" if os.environ.get("AWS_ENDPOINT_URL") else ""
    return FoundHome(
        bucket, region, f"s3://{bucket}?region={region}{style}", key and f"awskms:///{key}?region={region}"
    )


def prepare(region: str) -> None:
    """Make the service-linked roles of Batch and Spot, if the account has none. They are AWS's own, and free."""
    iam = client("iam", region, default_session())
    for service in _ROLES:
        with translated("iam:ListRoles"):
            if iam.list_roles(PathPrefix=f"/aws-service-role/{service}/")["Roles"]:
                continue
        with translated("iam:CreateServiceLinkedRole"):
            iam.create_service_linked_role(AWSServiceName=service)
