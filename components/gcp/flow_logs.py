"""Flow logs: a line for a sample of the traffic of a subnetwork's machines, in a log bucket of their own."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from .project import Project

LOG_CONFIG = gcp.compute.SubnetworkLogConfigArgs(
    aggregation_interval="INTERVAL_10_MIN", flow_sampling=0.5, metadata="INCLUDE_ALL_METADATA"
)
"""Of the connections that Google has seen, half; the longest interval makes the fewest lines.
Source: https://cloud.google.com/vpc/docs/flow-logs"""


def flow_logs(
    component: pulumi.Resource,
    subnetwork: pulumi.Input[str],
    retention_days: int,
    project: Project,
    *,
    kms_key: pulumi.Input[str] | None,
    purge: bool,
) -> gcp.logging.ProjectBucketConfig:
    """Keep a subnetwork's lines in a bucket of their own, and out of the project's default one.

    Args:
        subnetwork: its name.
        kms_key: full name of a key that admits Cloud Logging; None for Google's own encryption.
    """
    name, child = f"{component.pulumi_resource_name}-flows", pulumi.ResourceOptions(parent=component)
    lines = pulumi.Output.concat(
        'logName = "projects/', project.id, '/logs/compute.googleapis.com%2Fvpc_flows" AND ',
        'resource.labels.subnetwork_name = "', subnetwork, '" AND resource.labels.location : "', project.region, '"',
    )  # fmt: skip
    exclusion = gcp.logging.ProjectExclusion(
        f"{name}-default", description="Flow logs have a bucket of their own", filter=lines, opts=child
    )
    # Google reserves a deleted id for 7 days and generates none, so the id uses the random suffix of the exclusion's.
    end = exclusion.name.apply(lambda full: full.rpartition("-")[2])
    cmek = None if kms_key is None else gcp.logging.ProjectBucketConfigCmekSettingsArgs(kms_key_name=kms_key)
    bucket = gcp.logging.ProjectBucketConfig(
        f"{name}-bucket",
        project=project.id,
        location=project.region,
        bucket_id=pulumi.Output.concat(name, "-", end),
        retention_days=retention_days,
        cmek_settings=cmek,
        opts=pulumi.ResourceOptions(parent=component, protect=not purge, ignore_changes=["bucketId"]),
    )
    gcp.logging.ProjectSink(
        name,
        destination=pulumi.Output.concat("logging.googleapis.com/projects/", project.id, "/locations/", project.region,
                                         "/buckets/", bucket.bucket_id),
        filter=lines,
        unique_writer_identity=True,
        opts=child,
    )  # fmt: skip
    return bucket
