"""Google Cloud: login, clock, topics, logs and their console."""

from tidemill.clouds import Cloud

CLOUD = Cloud(
    name="gcp",
    title="Google Cloud",
    package=__name__,
    service="pubsub",
    scheme="gs",
    show="gcloud storage cat {uri}",
    access="pulumi stack output submitters",
    sender_errors='gcloud logging read \'resource.type=("cloud_scheduler_job" OR "cloud_run_revision") '
    "severity>=WARNING' --project {account} --freshness 1d",
    region_form=r"[a-z]+-[a-z]+\d+",
    account_variable="GOOGLE_CLOUD_PROJECT",
)
