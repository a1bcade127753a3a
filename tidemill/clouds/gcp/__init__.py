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
)
