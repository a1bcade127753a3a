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
    region_form=r"[a-z]+-[a-z]+\d+",
    account_variable="GOOGLE_CLOUD_PROJECT",
)
