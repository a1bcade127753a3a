"""Removes machines that have stopped: a function with its own account, called every few minutes."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_gcp as gcp

from tidemill import completion, fleet, layout
from tidemill.fleet import FleetQueue, FleetSettings

from ...base import as_args, token
from ...gcp.member import role_id
from ...gcp.project import Project
from ...gcp.sending.called import Called, member_of, service_account

SOURCE = Path(__file__).parent / "reconciler_function"
_SHARED = [Path(module.__file__ or "") for module in (completion, fleet, layout)]
ENTRY = "reconcile"
PERMISSIONS = (
    "compute.autoscalers.get",
    "compute.autoscalers.update",
    "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.update",
    "monitoring.timeSeries.list",
)
"""Its permissions on the project. Instance groups have no bindings of their own and support no conditions, so these
cover every group of the project: give each team its own project.
Source: the method pages below https://cloud.google.com/compute/docs/reference/rest/v1, such as
regionInstanceGroupManagers/deleteInstances"""

_MAIN = (
    f'"""What the functions framework starts."""\n\nfrom {SOURCE.name}.main import {ENTRY}\n\n__all__ = ["{ENTRY}"]\n'
)
_LEAVES = '"""The modules of tidemill that the function needs."""\n'
"""Not empty: Pulumi's SDK cannot read an asset without text back from the engine."""
_RUNTIME = "python312"
_TIMEOUT_SECONDS = 110
_IMAGE_DAYS = 7


@dataclass
class GcpReconcilerArgs:
    """Arguments of `GcpReconciler`."""

    fleets: Sequence[pulumi.Input[dict[str, Any]]]
    """The `fleet` of every `GcpWorkerPool` that it manages."""
    bucket: pulumi.Input[str]
    """Name of the job store's bucket, where it reads error records and writes its report."""
    log_bucket: pulumi.Input[str] | None = None
    """Full name of the log bucket for its lines; None leaves them in ``_Default``."""
    period_minutes: int = 2
    """Minutes between two runs, 1 to 10."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpReconciler(pulumi.ComponentResource):
    """The only component that lowers a group's target size. It removes machines that are off, failed to start, are not
    needed, or whose worker has been silent for half an hour. It also opens and closes the On-Demand rung, publishes
    jobs that have waited for others, and drops the messages of ended jobs while no machine can run its worker.

    While it does not run, nothing is lost and nothing is stopped; machines that are off keep their place and disks, a
    stockout opens no rung, and a job that waits for another begins only when somebody watches it. `tidemill status` and
    `tidemill doctor` report that.

    Makes: service accounts for the function, its build and its scheduler; a custom role with the function's permissions
    and its binding; the source as an object of the job store; the function (Cloud Functions, 2nd gen), which only the
    scheduler's account may call and only from inside the project, with a repository for its image; a scheduler job;
    with `log_bucket` a log sink.

    Costs while idle: about 22,000 calls of one second per month, inside the free tiers of Cloud Run and Cloud Scheduler
    (three jobs per account); a few cents for the function's image.

    Example:
        ```python
        topic = "projects/vision-dev-1/topics/vision-dev-cpu"
        fleet = {"name": "cpu", "subscription": "vision-dev-cpu", "topic": topic, "groups": []}
        reconciler = GcpReconciler(
            "vision-dev-reconciler", GcpReconcilerArgs(fleets=[fleet], bucket="vision-dev-store")
        )
        pulumi.export("reconciler", reconciler.function)
        ```
    """

    function: pulumi.Output[str]
    """The function's name."""

    def __init__(self, name: str, args: GcpReconcilerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpReconcilerArgs, args)
        super().__init__(token(GcpReconciler), name, None, opts)
        if not 1 <= args.period_minutes <= 10:
            raise ValueError(f"{name}: period_minutes is {args.period_minutes}; allowed: 1 to 10")
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self)
        self._project = Project(self)
        self._stem = name.removesuffix("-reconciler")
        account = service_account(self, self._stem, "reconciler", "removes machines that have left")
        # For grants on the store and on messages.
        self.member = member_of("reconciler", account)
        role = gcp.projects.IAMCustomRole(
            f"{name}-role",
            role_id=role_id(self._stem, "reconciler"),
            title=f"Tidemill: reconciler of {self._stem}",
            permissions=list(PERMISSIONS),
            opts=self._child,
        )
        self._project.bind(f"{name}-reconciler-grant", role.name, self.member.principal, self._child)
        function = self._function(name, account)
        self._call_it(function)
        self.function = function.name
        self.register_outputs({"function": self.function})

    def _function(self, name: str, account: gcp.serviceaccount.Account) -> gcp.cloudfunctionsv2.Function:
        args = self._args
        files = source()
        uploaded = gcp.storage.BucketObject(
            f"{name}-source",
            bucket=args.bucket,
            # The name depends on the content, so that Google rebuilds the function exactly when the content changes.
            name=f"{layout.RECONCILER}/{digest(files)[:16]}.zip",
            source=pulumi.AssetArchive({path: pulumi.StringAsset(text) for path, text in files.items()}),
            opts=self._child,
        )
        repository = self._repository()
        builder, ready = self._builder(repository)
        values = pulumi.Output.all(self._project.id, self._project.region, args.bucket, pulumi.Output.all(*args.fleets))
        settings = values.apply(lambda values: asdict(self._settings(*values)))
        return gcp.cloudfunctionsv2.Function(
            # A Cloud Run service of that name is made for it, with fewer than 50 characters.
            f"{name}-run",
            location=self._project.region,
            description="Removes machines that have left, opens and closes the second rung",
            build_config=gcp.cloudfunctionsv2.FunctionBuildConfigArgs(
                runtime=_RUNTIME,
                entry_point=ENTRY,
                service_account=builder.name,
                docker_repository=repository.id,
                source=gcp.cloudfunctionsv2.FunctionBuildConfigSourceArgs(
                    storage_source=gcp.cloudfunctionsv2.FunctionBuildConfigSourceStorageSourceArgs(
                        bucket=args.bucket, object=uploaded.name
                    )
                ),
            ),
            service_config=gcp.cloudfunctionsv2.FunctionServiceConfigArgs(
                service_account_email=account.email,
                # One at a time: concurrent runs would remove the same machines.
                min_instance_count=0,
                max_instance_count=1,
                max_instance_request_concurrency=1,
                available_memory="512Mi",
                timeout_seconds=_TIMEOUT_SECONDS,
                # Cloud Scheduler of the same project counts as inside.
                # Source: https://cloud.google.com/run/docs/securing/ingress
                ingress_settings="ALLOW_INTERNAL_ONLY",
                environment_variables={"RECONCILER_SETTINGS": pulumi.Output.json_dumps(settings)},
            ),
            labels=args.labels,
            opts=pulumi.ResourceOptions(parent=self, depends_on=ready),
        )

    def _settings(self, project: str, region: str, bucket: str, fleets: list[dict[str, Any]]) -> FleetSettings:
        queues = [FleetQueue.of(fleet) for fleet in fleets]
        return FleetSettings(project, region, bucket, self._args.period_minutes * 60, queues)

    def _repository(self) -> gcp.artifactregistry.Repository:
        """The repository of the function's image: a build moves tags, which the team's own repository does not
        allow."""
        policy = gcp.artifactregistry.RepositoryCleanupPolicyArgs
        return gcp.artifactregistry.Repository(
            f"{self.pulumi_resource_name}-images",
            repository_id=f"{self._stem}-reconciler",
            location=self._project.region,
            format="DOCKER",
            description="The reconciler's image, built by Cloud Functions",
            cleanup_policies=[
                policy(
                    id="keep-newest",
                    action="KEEP",
                    most_recent_versions=gcp.artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(
                        keep_count=2
                    ),
                ),
                policy(
                    id="delete-old",
                    action="DELETE",
                    condition=gcp.artifactregistry.RepositoryCleanupPolicyConditionArgs(
                        tag_state="ANY", older_than=f"{_IMAGE_DAYS * 24 * 3600}s"
                    ),
                ),
            ],
            labels=self._args.labels,
            opts=self._child,
        )

    def _builder(
        self, repository: gcp.artifactregistry.Repository
    ) -> tuple[gcp.serviceaccount.Account, list[pulumi.Resource]]:
        """An account for the build, instead of the project's default one, and its grants.

        Source: https://cloud.google.com/functions/docs/securing/build-custom-sa
        """
        account = service_account(self, self._stem, "builder", "builds the reconciler")
        member = member_of("builder", account)
        expression = pulumi.Output.concat(
            'resource.name.startsWith("projects/_/buckets/gcf-v2-sources-',
            self._project.number,
            "-",
            self._project.region,
            '")',
        )
        condition = gcp.projects.IAMMemberConditionArgs(title="function-sources", expression=expression)
        name, bind = f"{self.pulumi_resource_name}-builder", self._project.bind
        images = gcp.artifactregistry.RepositoryIamMember(
            f"{name}-images",
            location=repository.location,
            repository=repository.name,
            role="roles/artifactregistry.writer",
            member=member.principal,
            opts=self._child,
        )
        return account, [
            images,
            bind(f"{name}-logs-grant", "roles/logging.logWriter", member.principal, self._child),
            bind(f"{name}-sources-grant", "roles/storage.objectViewer", member.principal, self._child, condition),
        ]

    def _call_it(self, function: gcp.cloudfunctionsv2.Function) -> None:
        caller = service_account(self, self._stem, "scheduler", "calls the reconciler")
        address = function.service_config.apply(lambda config: config.uri or "" if config else "")
        called = Called(self, function.name, address, _TIMEOUT_SECONDS, caller)
        called.at("schedule", f"*/{self._args.period_minutes} * * * *", after=called.let_in(function.location))
        called.keep_lines(self._args.log_bucket)


def source() -> dict[str, str]:
    """The function's source by path: a `main.py` for the framework, and the package with the code."""
    files = {f"{SOURCE.name}/{path.name}": path.read_text(encoding="utf-8") for path in sorted(SOURCE.glob("*.py"))}
    # The function contains only these modules of tidemill.
    shared = {f"tidemill/{path.name}": path.read_text(encoding="utf-8") for path in _SHARED}
    requirements = (SOURCE / "requirements.txt").read_text(encoding="utf-8")
    return {"main.py": _MAIN, "requirements.txt": requirements, "tidemill/__init__.py": _LEAVES, **shared, **files}


def digest(files: dict[str, str]) -> str:
    """SHA-256 of a source, the same on every machine."""
    text = "".join(f"{path}\0{content}\0" for path, content in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()
