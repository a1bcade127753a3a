"""The probes of the sender on Google Cloud, of what calls it, and of who may not change either."""

from __future__ import annotations

from tests.access.probes import Thing, no, of, yes
from tests.access.stacks import PROJECT, SUFFIX

ACCOUNTS = {"sender": "vision-dev-sender", "timer": "vision-dev-timer"}
IDENTITIES = {"sender": "the sender of vision-dev", "timer": "the schedules of vision-dev"}


def _topic(queue: str) -> Thing:
    return Thing(f"the topic of {queue}", f"pubsub/projects/{PROJECT}/topics/{queue}-topic-{SUFFIX}")


def _store(key: str) -> Thing:
    name = f"storage/projects/_/buckets/vision-dev-store-bucket-{SUFFIX}/objects/{key}"
    return Thing(f"`{key}` in the store of vision-dev", name)


def _data(bucket: str, key: str) -> Thing:
    return Thing(f"`{key}` in {bucket}", f"storage/projects/_/buckets/{bucket}/objects/{key}")


def _account(name: str) -> Thing:
    full = f"iam/projects/{PROJECT}/serviceAccounts/{name}@{PROJECT}.iam.gserviceaccount.com"
    return Thing(f"the account `{name}`", full)


TEMPLATE, NOTE = _store("templates/tiles/versions/1.json"), _store("sends/tiles/schedule-nightly/1.json")
EVENTS = Thing(
    "the new files of vision-dev", f"pubsub/projects/{PROJECT}/subscriptions/vision-dev-arrivals-tiles-work-{SUFFIX}"
)
SERVICE = Thing(
    "the sender's service", f"run/projects/{PROJECT}/locations/us-central1/services/vision-dev-sender-run-{SUFFIX}"
)
SCHEDULE = Thing(
    "a schedule of vision-dev",
    f"cloudscheduler/projects/{PROJECT}/locations/us-central1/jobs/vision-dev-sender-at-nightly-{SUFFIX}",
)

PROBES = [
    *of(
        "sender",
        yes("pubsub.topics.publish", _topic("vision-dev-cpu"), "Its schedule names the queue."),
        no("pubsub.topics.publish", _topic("audio-dev-cpu"), "The queue is another team's."),
        yes("storage.objects.get", TEMPLATE, "It sends templates."),
        no("storage.objects.create", TEMPLATE, "People save templates."),
        no("storage.objects.delete", TEMPLATE, "People save templates."),
        yes("storage.objects.create", NOTE, "It notes what it has sent."),
        no("storage.objects.delete", NOTE, "A note that is lost is a job twice."),
        yes("storage.objects.create", _store("jobs/tiles-1/job.json"), "It submits."),
        no("storage.objects.create", _store("pipeline.json"), "The stack writes the descriptor."),
        no("storage.objects.create", _store("out/tiles-1/0/a"), "Jobs write outputs."),
        yes("storage.objects.get", _data("raw-images", "a.jpg"), "It lists the items."),
        no("storage.objects.create", _data("features", "vision/a"), "Jobs write data."),
        no("storage.objects.get", _data("features", "audio/a"), "The prefix is another team's."),
        yes("pubsub.subscriptions.consume", EVENTS, "It takes the notifications of new files."),
        no("iam.serviceAccounts.actAs", _account("vision-dev-worker"), "It starts no machine."),
        no("iam.serviceAccounts.getAccessToken", _account("vision-dev-worker"), "Jobs have rights of their own."),
        no("run.routes.invoke", SERVICE, "Only schedules call it."),
        no("cloudscheduler.jobs.update", SCHEDULE, "When templates are sent is for the stack file to say."),
    ),
    *of(
        "timer",
        yes("run.routes.invoke", SERVICE, "It wakes the sender up."),
        no("pubsub.topics.publish", _topic("vision-dev-cpu"), "The sender submits."),
        no("storage.objects.get", TEMPLATE, "The sender reads."),
    ),
    *of(
        "submitter",
        yes("storage.objects.create", TEMPLATE, "People save templates."),
        no("storage.objects.delete", TEMPLATE, "A version stays as it was sent."),
        no("storage.objects.delete", NOTE, "A note that is lost is a job twice."),
        no("cloudscheduler.jobs.update", SCHEDULE, "When templates are sent is for the stack file to say."),
        no("run.routes.invoke", SERVICE, "Only schedules call it."),
        no("iam.serviceAccounts.getAccessToken", _account("vision-dev-sender"), "A submit has the person's own name."),
        no("pubsub.subscriptions.consume", EVENTS, "Somebody could hide files from the sender."),
    ),
    *of(
        "machine",
        no("storage.objects.create", TEMPLATE, "An item must not become a template."),
        no("storage.objects.create", NOTE, "An item could keep a time from being sent."),
        no("storage.objects.get", NOTE, "An item could foretell a job's id, and write it down first."),
        no("run.routes.invoke", SERVICE, "Only schedules call it."),
        no("pubsub.subscriptions.consume", EVENTS, "An item could hide files from the sender."),
    ),
]
