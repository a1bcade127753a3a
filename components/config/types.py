"""Types of single values in a stack's config: what a name, a key or a URI may look like."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

_NAME = re.compile(r"[a-z](-?[a-z0-9])*")
_ENVIRONMENT_NAME = re.compile(
    r"(?!AWS_|BASH|DOCKER_|ECS_|LD_|PYTHON|TIDEMILL_)(?!(?:ENV|EUID|GROUPS|HOME|IFS|PATH|PPID|SHELLOPTS|UID)$)"
    r"[A-Za-z_][A-Za-z0-9_]*"
)
_PROJECT = r"projects/[a-z][a-z0-9.:-]{0,61}[a-z0-9]?"
AWS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
"""A key of AWS KMS."""
GCP_KEY = re.compile(rf"{_PROJECT}/locations/[a-z0-9-]+/keyRings/[\w-]{{1,63}}/cryptoKeys/[\w-]{{1,63}}")
"""A key of Cloud KMS."""
POLICY = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+")
"""An IAM policy of AWS."""
AWS_PRINCIPAL = re.compile(
    r"arn:aws[a-z-]*:(iam::\d{12}:(root|user/[\w+=,.@/-]+|role/[\w+=,.@/-]+)"
    r"|sts::\d{12}:assumed-role/[\w+=,.@-]+/[\w+=,.@-]+)"
)
"""A user, role, role session or account of AWS."""
AWS_PERSON = re.compile(
    r"arn:aws[a-z-]*:(iam::\d{12}:user/[\w+=,.@/-]+|sts::\d{12}:assumed-role/AWSReservedSSO_[\w+=,.@-]+/[\w+=,.@-]+)"
)
"""One person of AWS: a user, or a session of a role of IAM Identity Center, which names it after the person. Of another
role whoever assumes it chooses the session's name.
Source: https://docs.aws.amazon.com/singlesignon/latest/userguide/referencingpermissionsets.html"""
GCP_PERSON = re.compile(r"user:[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII)
"""One person of GCP."""
GCP_PRINCIPAL = re.compile(r"(user|group|serviceAccount):[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII)
"""A person, group or service account of GCP."""
ADDRESS = re.compile(r"[\w.+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)
"""An e-mail address."""
OWNER = re.compile(r"[^<>$\"\\\x00-\x1f]+")
"""Who owns something, in words without the characters that templates of messages read."""
SNS_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:(?P<region>[a-z0-9-]+):\d{12}:[\w-]{1,256}")
"""A topic of SNS that is not FIFO, which neither alarms nor budgets can tell.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html"""
CHANNEL = re.compile(rf"{_PROJECT}/notificationChannels/\d{{1,30}}")
"""A notification channel of Cloud Monitoring."""
IPAM_POOL = re.compile(r"ipam-pool-[0-9a-f]{8,17}")
"""A pool of addresses of Amazon VPC IPAM."""
BILLING_ACCOUNT = re.compile(r"[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}")
"""A billing account of GCP. Source: https://cloud.google.com/billing/docs/how-to/find-billing-account-id"""
NETWORK = re.compile(rf"{_PROJECT}/global/networks/[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?")
"""A VPC network of GCP."""
SUBNETWORK = re.compile(rf"{_PROJECT}/regions/[a-z0-9-]+/subnetworks/[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?")
"""A subnetwork of GCP."""
AMI = re.compile(r"ami-[0-9a-f]{8,17}")
"""A machine image of EC2."""
GCP_IMAGE = re.compile(rf"{_PROJECT}/global/images/(family/)?[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?")
"""A machine image of Compute Engine, or the newest one of a family."""
AWS_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}|arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:\d{12}:group/[\w.-]{1,128}")
"""A Capacity Reservation of EC2, or a resource group of some."""
GCP_RESERVATION = re.compile(rf"({_PROJECT}/reservations/)?[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?")
"""A reservation of Compute Engine, of this project or a shared one.
Source: https://cloud.google.com/compute/docs/instances/reservations-consume"""
FILESTORE = re.compile(r"(\d{1,3}\.){3}\d{1,3}:/[A-Za-z0-9._/-]+")
"""Address and share of a Filestore instance."""
BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
"""A bucket; the clouds themselves refuse dots and underscores."""
JOB_QUEUE = re.compile(
    r"arn:aws[a-z-]*:batch:(?P<region>[a-z0-9-]+):\d{12}:job-queue/(?P<name>[0-9A-Za-z][\w-]{0,127})"
)
"""A job queue of AWS Batch."""
REPOSITORY = re.compile(
    rf"(?P<project>{_PROJECT})/locations/(?P<region>[a-z0-9-]+)/repositories/[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?"
)
"""A repository of Artifact Registry."""
_PUBSUB_ID = r"[A-Za-z][\w.~+%-]{2,254}"
TOPIC = re.compile(rf"(?P<project>{_PROJECT})/topics/{_PUBSUB_ID}")
"""A topic of Pub/Sub. Source: https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names"""
SUBSCRIPTION = re.compile(rf"(?P<project>{_PROJECT})/subscriptions/{_PUBSUB_ID}")
"""A subscription of Pub/Sub."""
FUSE_IMAGE = re.compile(r"[a-z0-9][a-z0-9.:/_-]*@sha256:[0-9a-f]{64}")
"""Any image, by digest."""
_PREFIX = r"(/(?!-)[A-Za-z0-9!_.'()/=+@,:-]*)?"
"""Prefixes appear in IAM documents, conditions and boot scripts; none of these characters has a meaning there.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html (safe characters)"""
_S3 = re.compile(rf"s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]{_PREFIX}")
_GS = re.compile(rf"gs://[a-z0-9][a-z0-9._-]{{1,220}}[a-z0-9]{_PREFIX}")
_STACK = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}/[\w.-]{1,100}", re.ASCII)
_ABSOLUTE = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._-]+)+")


@dataclass(frozen=True)
class Matching:
    """A text that matches a pattern from end to end, for pydantic and, as `pattern`, for editors and the reference."""

    pattern: re.Pattern[str]
    allowed: str
    longest: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        document = dict(handler(schema))
        return document | {
            "pattern": f"^(?:{self.pattern.pattern})$",
            # Editors show it in place of the pattern: https://github.com/redhat-developer/yaml-language-server
            "patternErrorMessage": self.allowed,
            "maxLength": self.longest,
        }

    def _check(self, value: str) -> str:
        if len(value) > self.longest or not self.pattern.fullmatch(value):
            raise ValueError(self.allowed)
        return value


DIRECTIONS = "(central|(north|south)?(east|west)|north|south)"
"""Every cloud's region has one in its name, so that a misspelt one is told before a cloud is asked."""


def matching(pattern: re.Pattern[str], allowed: str, longest: int = 2048) -> Matching:
    """A text that matches a pattern from end to end; ``allowed`` is what the error says."""
    return Matching(pattern, allowed, longest)


def either(first: re.Pattern[str], second: re.Pattern[str], allowed: str) -> Matching:
    """A text that matches one of two patterns; the cloud's checks decide which one a stack may use."""
    return matching(re.compile(f"{first.pattern}|{second.pattern}"), allowed)


class _Unique:
    """A list that holds no value twice, for pydantic and, as `uniqueItems`, for editors."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(handler(schema)) | {"uniqueItems": True}

    def _check(self, values: list[Any]) -> list[Any]:
        if len(values) != len(set(values)):
            raise ValueError("each value once")
        return values


unique = _Unique()

Name = Annotated[
    str,
    matching(
        _NAME, "1 to 32 lower-case letters, digits and single hyphens, starting with a letter, no hyphen last", 32
    ),
]
_PLAIN = "without wildcards; a prefix of letters, digits and !_.'()/=+@,:- that does not start with -"
DATA = re.compile(f"{_S3.pattern}|{_GS.pattern}")
"""A bucket, or a prefix in one."""
ALLOWED_DATA = f"s3://bucket or s3://bucket/prefix/, on GCP gs://, {_PLAIN}"
S3Uri = Annotated[str, matching(_S3, f"s3://bucket or s3://bucket/prefix/, {_PLAIN}")]
GsUri = Annotated[str, matching(_GS, f"gs://bucket or gs://bucket/prefix/, {_PLAIN}")]
AbsolutePath = Annotated[str, matching(_ABSOLUTE, "an absolute path of plain names", 200)]
Zone = Annotated[
    str,
    matching(
        # No region of either cloud has more than six.
        re.compile(r"[a-f]|[a-z]+(-[a-z]+)*-?\d+(-[a-z]+-?\d+)*-?[a-f]"),
        "a letter from a to f, or a name such as us-west-2a, on GCP us-central1-a",
        40,
    ),
]
StackName = Annotated[
    str, matching(_STACK, "organization/project/stack; on a backend without organizations the first is `organization`")
]
EnvironmentKey = Annotated[
    str,
    matching(
        _ENVIRONMENT_NAME,
        "a name of letters, digits and _ that starts with no digit, is not PATH, HOME or another of the shell, "
        "and does not start with AWS_, BASH, DOCKER_, ECS_, LD_, PYTHON or TIDEMILL_",
    ),
]
