"""The team's image repositories."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from ..base import as_args, child_name, token
from ..config import Registry, StackConfig, part
from ..config.registry_models import in_mirror
from ..images import named_images
from .account import account_of
from .checks import check_registry
from .key import key_arn
from .policy import Statement, allow, document, grant

_PULL = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.(?P<suffix>amazonaws\.com(\.cn)?)/(?P<name>[^@:]+)"
)


@dataclass
class AwsRegistryArgs:
    """Arguments of `AwsRegistry`."""

    namespace: str
    """First part of every repository's name, `vision-dev`, which users type when they push."""
    repositories: list[str]
    """Names of the repositories within the namespace."""
    keep_images: int = 100
    """Images kept in each repository; the oldest expire beyond it."""
    expire_untagged_after_days: int = 14
    """Days after which an untagged image expires."""
    purge: bool = False
    """Lift the protection, and delete repositories with the images in them."""
    kms_key: pulumi.Input[str] | None = None
    """``create``, or the ARN of an existing key; without one, ECR's own encryption. Not for imported repositories."""
    imported: dict[str, str] | None = None
    """Existing repositories to import, by their names here: they keep their names and outlive the stack."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsRegistry(pulumi.ComponentResource):
    """ECR repositories with scanning, immutable tags and a lifecycle; protected.

    Makes: per name an ECR repository ``<namespace>/<name>`` and its lifecycle policy; with `kms_key` of `create` a KMS
    key and an alias.

    Costs while idle: the images' storage, $0.10 per GB and month; nothing without images; a key about $1 per month.

    Example:
        ```python
        registry = AwsRegistry(
            "vision-dev-registry", AwsRegistryArgs(namespace="vision-dev", repositories=["preprocess"])
        )
        pulumi.export("registry_url", registry.url)
        ```
    """

    url: pulumi.Output[str]
    """Prefix of a repository's name: `docker push <url>/<name>:<tag>`; not for imported ones."""
    urls: dict[str, pulumi.Output[str]]
    """The repositories' URLs by name."""
    arns: dict[str, pulumi.Output[str]]
    """The repositories' ARNs by name."""

    def __init__(self, name: str, args: AwsRegistryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsRegistryArgs, args)
        super().__init__(token(AwsRegistry), name, None, opts)
        wanted = ("repositories", "keep_images", "expire_untagged_after_days", "kms_key")
        check_registry(part(Registry, {key: getattr(args, key) for key in wanted}, "registry"))
        account = account_of(self)
        self._key = key_arn(self, args.kms_key, account, args.tags, purge=args.purge)
        host = pulumi.Output.concat(account.number, ".dkr.ecr.", account.region, ".", account.dns_suffix)
        self.url = pulumi.Output.concat(host, "/", args.namespace)
        made = {repository: self._repository(name, repository, args) for repository in args.repositories}
        self.arns = {repository: each.arn for repository, each in made.items()}
        self.urls = {repository: pulumi.Output.concat(host, "/", each.name) for repository, each in made.items()}
        self._names = {repository: each.name for repository, each in made.items()}
        imported = args.imported or {}
        # Policies have a size: what the stack makes has one pattern, which covers no other stack's repositories.
        own = [account.arn("ecr", f"repository/{args.namespace}/*")] if made.keys() - imported.keys() else []
        self._named = [*own, *(each.arn for repository, each in made.items() if repository in imported)]
        self.register_outputs({"url": self.url})

    def _repository(self, name: str, repository: str, args: AwsRegistryArgs) -> "aws.ecr.Repository":
        imported = (args.imported or {}).get(repository)
        made = aws.ecr.Repository(
            child_name(f"{name}-{repository}", imported),
            name=imported or f"{args.namespace}/{repository}",
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
            encryption_configurations=None if imported else self._encryption(),
            force_delete=args.purge,
            tags=args.tags,
            opts=pulumi.ResourceOptions(
                parent=self, protect=not args.purge, import_=imported, retain_on_delete=imported is not None
            ),
        )
        aws.ecr.LifecyclePolicy(
            f"{name}-{repository}-lifecycle",
            repository=made.name,
            policy=_lifecycle(args.keep_images, args.expire_untagged_after_days),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return made

    def _encryption(self) -> "list[aws.ecr.RepositoryEncryptionConfigurationArgs] | None":
        """ECR decrypts for whoever may pull, by a grant that it gives itself when it makes the repository.

        Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/encryption-at-rest.html
        """
        if self._key is None:
            return None
        return [aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type="KMS", kms_key=self._key)]

    def grant_pull(self, role: aws.iam.Role) -> None:
        """Let a role pull every image of the registry."""
        # The token is not tied to a repository: https://docs.aws.amazon.com/AmazonECR/latest/userguide/security-iam-awsmanpol.html
        statements = [allow(["ecr:GetAuthorizationToken"], ["*"])]
        if self._named:
            statements.append(allow(_PULL, self._named))
        grant(self, "pull", role, statements)

    def admit_functions(self, repository: str, pattern: pulumi.Input[str]) -> pulumi.Output[str]:
        """Let Lambda pull a repository's images for functions whose ARN fits a pattern.

        Source: https://docs.aws.amazon.com/lambda/latest/dg/images-create.html#gettingstarted-images-permissions

        Returns:
            The id of the policy, known once Lambda may.
        """
        pulled: Statement = {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            "Condition": {"StringLike": {"aws:sourceArn": pattern}},
        }
        policy = aws.ecr.RepositoryPolicy(
            f"{self.pulumi_resource_name}-{repository}-functions",
            repository=self._names[repository],
            policy=document([pulled]),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return policy.id

    def look_statements(self, *, processors: bool = False) -> list[Statement]:
        """A submitter's permissions to check, before a submit, that an image exists, and for which processors."""
        return look_statements(self._named, processors=processors)


def look_statements(repositories: Sequence[pulumi.Input[str]], *, processors: bool = False) -> list[Statement]:
    """Statements for `tidemill doctor` to list the images of repositories, by ARN.

    Args:
        processors: Also to read for which processors an image is. It takes what a pull takes, so only stacks whose
            machines have different ones grant it.
    """
    actions = ["ecr:DescribeImages", *(["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"] if processors else [])]
    return [allow(actions, repositories)] if repositories else []


def _lifecycle(keep_images: int, expire_untagged_after_days: int) -> str:
    untagged = {
        "rulePriority": 1,
        "description": "Images without a tag",
        "selection": {
            "tagStatus": "untagged",
            "countType": "sinceImagePushed",
            "countUnit": "days",
            "countNumber": expire_untagged_after_days,
        },
        "action": {"type": "expire"},
    }
    oldest = {
        "rulePriority": 2,
        "description": "The oldest images beyond the number kept",
        "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": keep_images},
        "action": {"type": "expire"},
    }
    return json.dumps({"rules": [untagged, oldest]})


def external_repositories(config: StackConfig) -> list[str]:
    """ARNs of the images' ECR repositories outside the stack's registry."""
    return sorted({arn for image in named_images(config) if (arn := ecr_repository(image))})


def mirrored_repositories(config: StackConfig) -> list[str]:
    """ARNs of the repositories in mirrors on ECR that the queues' images are in."""
    images = (image for queue in config.queues.values() for image in queue.images.values())
    return sorted({arn for image in images if in_mirror(config.mirrors, image) and (arn := ecr_repository(image))})


def ecr_repository(image: str) -> str | None:
    """ARN of the ECR repository that a full reference names, None for another registry's."""
    match = _ECR.match(image)
    return _arn(match) if match else None


def _arn(match: re.Match[str]) -> str:
    partition = "aws-cn" if match["suffix"].endswith(".cn") else "aws-us-gov" if "-gov-" in match["region"] else "aws"
    return f"arn:{partition}:ecr:{match['region']}:{match['account']}:repository/{match['name']}"
