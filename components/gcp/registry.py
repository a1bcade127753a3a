"""The team's image repository."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, child_name, token
from ..config import Registry, part
from .checks import check_registry
from .key import key_name
from .member import Member, grant
from .project import Project

_DAY = 24 * 3600


@dataclass
class GcpRegistryArgs:
    """Arguments of `GcpRegistry`."""

    repository: str
    """The repository's name, `vision-dev`, which users type when they push."""
    keep_images: int = 100
    """Versions kept of each image; the oldest beyond it are deleted."""
    expire_untagged_after_days: int = 14
    """Days after which an untagged image is deleted, unless it is one of those kept."""
    purge: bool = False
    """Lift the protection; a repository is deleted with the images in it."""
    kms_key: pulumi.Input[str] | None = None
    """``create``, or the full name of a key that admits Artifact Registry's service agent; not for an imported one."""
    imported: str | None = None
    """Full name of an existing repository to import instead of making one: it keeps its name and outlives the stack."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpRegistry(pulumi.ComponentResource):
    """An Artifact Registry repository for images of every name, with immutable tags and cleanup; protected.

    Google's cleanup deletes old untagged images; whether it deletes one with an immutable tag was not tried.

    Google scans images if the project has the Container Scanning API enabled.

    Makes: a Docker repository with its cleanup policies; with `kms_key` of `create` a key ring, a key and its grant.

    Costs while idle: the images' storage, $0.10 per GB and month beyond half a GB; nothing without images. Scanning is
    billed per pushed image, about $0.26.

    Example:
        ```python
        registry = GcpRegistry("vision-dev-registry", GcpRegistryArgs(repository="vision-dev"))
        pulumi.export("registry_url", registry.url)
        ```
    """

    url: pulumi.Output[str]
    """Prefix of an image's name: `docker push <url>/<name>:<tag>`."""
    repository: pulumi.Output[str]
    """The repository's full name."""

    def __init__(self, name: str, args: GcpRegistryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpRegistryArgs, args)
        super().__init__(token(GcpRegistry), name, None, opts)
        wanted = ("keep_images", "expire_untagged_after_days", "kms_key")
        check_registry(part(Registry, {key: getattr(args, key) for key in wanted}, "registry"))
        project = Project(self)
        key = None
        if args.kms_key is not None and args.imported is None:
            agent = Member("registry", project.agent("gcp-sa-artifactregistry"))
            key = key_name(self, args.kms_key, project, agent, args.labels, purge=args.purge)
        imported = args.imported.rpartition("/")[2] if args.imported else None
        made = gcp.artifactregistry.Repository(
            child_name(f"{name}-images", imported),
            repository_id=imported or args.repository,
            location=project.region,
            format="DOCKER",
            kms_key_name=key,
            docker_config=gcp.artifactregistry.RepositoryDockerConfigArgs(immutable_tags=True),
            cleanup_policies=_cleanup(args.keep_images, args.expire_untagged_after_days),
            cleanup_policy_dry_run=False,
            vulnerability_scanning_config=gcp.artifactregistry.RepositoryVulnerabilityScanningConfigArgs(
                enablement_config="INHERITED"
            ),
            labels=args.labels,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=not args.purge,
                import_=args.imported,
                retain_on_delete=args.imported is not None,
            ),
        )
        self._location = project.region
        self.repository = pulumi.Output.concat(
            "projects/", project.id, "/locations/", project.region, "/repositories/", made.repository_id
        )
        self.url = pulumi.Output.concat(project.region, "-docker.pkg.dev/", project.id, "/", made.repository_id)
        self.register_outputs({"url": self.url, "repository": self.repository})

    def grant_pull(self, member: Member) -> None:
        """Let a member pull, and see, every image of the repository."""
        on = {"repository": self.repository, "location": self._location}
        role = "roles/artifactregistry.reader"
        grant(self, gcp.artifactregistry.RepositoryIamMember, "pull", member, role, **on)


def _cleanup(keep: int, untagged_days: int) -> list[gcp.artifactregistry.RepositoryCleanupPolicyArgs]:
    """A keep policy takes precedence over a delete policy.

    Source: https://cloud.google.com/artifact-registry/docs/repositories/cleanup-policy
    """
    policy = gcp.artifactregistry.RepositoryCleanupPolicyArgs
    condition = gcp.artifactregistry.RepositoryCleanupPolicyConditionArgs
    recent = gcp.artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(keep_count=keep)
    untagged = condition(tag_state="UNTAGGED", older_than=f"{untagged_days * _DAY}s")
    older = condition(tag_state="TAGGED", older_than=f"{_DAY}s")
    return [
        policy(id="keep-recent", action="KEEP", most_recent_versions=recent),
        policy(id="delete-untagged", action="DELETE", condition=untagged),
        policy(id="delete-older", action="DELETE", condition=older),
    ]
