"""The probes of the sender on AWS, of what calls it, and of who may not change either."""

from __future__ import annotations

from tests.access.probes import Probe, Thing, no, of, yes
from tests.access.stacks import CHANNEL, SUFFIX, of_account

ASKED = {f"aws:requesttag/tidemill:{key}": value for key, value in {"team": "vision", "environment": "dev"}.items()}
IDENTITIES = {
    "sender": "the sender of vision-dev",
    "schedules": "the schedules of vision-dev",
}


def _store(stack: str, key: str) -> Thing:
    return Thing(f"`{key}` in the store of {stack}", f"arn:aws:s3:::{stack}-store-bucket-{SUFFIX}/{key}")


def _queue(key: str, stack: str = "vision-dev") -> Thing:
    name = f"job-queue/{stack}-{key}-queue-{SUFFIX}"
    return Thing(f"the queue {key} of {stack}", of_account("batch", name), ASKED)


SPOT_QUEUE, AUDIOS_SPOT_QUEUE = (
    Thing(
        f"the job queue for Spot of {stack}", of_account("batch", f"job-queue/{stack}-cpu-market-spot-{SUFFIX}"), ASKED
    )
    for stack in ("vision-dev", "audio-dev")
)
FUNCTION, PRODS_FUNCTION, OTHER_FUNCTION = (
    Thing(text, of_account("lambda", f"function:{name}"))
    for text, name in (
        ("the sender's function of vision-dev", f"vision-dev-sender-function-{SUFFIX}"),
        ("the sender's function of vision-prod", f"vision-prod-sender-function-{SUFFIX}"),
        ("another function of the account", "payments"),
    )
)
EVENTS, PRODS_EVENTS, AUDIOS_EVENTS = (
    Thing(f"the events of {stack}-files", of_account("sqs", f"{stack}-files-q-{SUFFIX}"))
    for stack in ("vision-dev", "vision-prod", "audio-dev")
)
SCHEDULE, PRODS_SCHEDULE = (
    Thing(
        f"a schedule of vision-{each}", of_account("scheduler", f"schedule/vision-{each}-sender-group-{SUFFIX}/nightly")
    )
    for each in ("dev", "prod")
)
TEMPLATE, NOTE = (
    _store("vision-dev", key) for key in ("templates/tiles/versions/1.json", "sends/tiles/schedule-nightly/1.json")
)
WORKERS = Thing("the worker's repository", of_account("ecr", "repository/vision-dev/tidemill-worker"))
SENDERS_ROLE, JOBS_ROLE = (
    Thing(text, of_account("iam", f"role/vision-dev-{name}-{SUFFIX}", ""), {"iam:passedtoservice": service})
    for text, name, service in (
        ("the sender's role, for Lambda", "sender-function", "lambda.amazonaws.com"),
        ("the jobs' role, for Lambda", "identity-job", "lambda.amazonaws.com"),
    )
)
JOB = Thing("a job of team vision", of_account("batch", "job/0f0e0d0c"), {"aws:resourcetag/tidemill:team": "vision"})
LINES, AUDIOS_LINES = (
    Thing(f"the log lines of {stack}", of_account("logs", f"log-group:{stack}-logs-group-{SUFFIX}:log-stream:a"))
    for stack in ("vision-dev", "audio-dev")
)

PROBES: list[Probe] = [
    *of(
        "sender",
        yes("batch:SubmitJob", _queue("cpu"), "Its schedule names the queue."),
        yes("batch:SubmitJob", SPOT_QUEUE, "A template may ask for the market."),
        no("batch:SubmitJob", AUDIOS_SPOT_QUEUE, "The queue is another team's."),
        no("batch:SubmitJob", _queue("arm"), "No schedule and no arrivals name the queue."),
        no("batch:SubmitJob", _queue("cpu", "audio-dev"), "The queue is another team's."),
        no("batch:SubmitJob", _queue("cpu", "vision-prod"), "The queue is another environment's."),
        no("batch:TerminateJob", JOB, "It ends no job."),
        no("batch:RegisterJobDefinition", _queue("cpu"), "It may mount the machine's root."),
        yes("s3:GetObject", TEMPLATE, "It sends what people have saved."),
        no("s3:PutObject", TEMPLATE, "What is sent is for people to say."),
        yes("s3:PutObject", NOTE, "Its notes make a send one job."),
        no("s3:DeleteObject", NOTE, "Without the note the same time would be sent twice."),
        yes("s3:PutObject", _store("vision-dev", "jobs/a/job.json"), "A send is a job."),
        no("s3:GetObject", _store("vision-dev", "out/a"), "Results are for people."),
        no("s3:GetObject", _store("vision-dev", "state/a"), "State is the jobs'."),
        no("s3:PutObject", _store("vision-dev", "pipeline.json"), "The descriptor is the stack's."),
        no("s3:GetObject", _store("audio-dev", "templates/a/versions/1.json"), "It is another team's."),
        no("s3:GetObject", _store("vision-prod", "templates/a/versions/1.json"), "It is another environment's."),
        yes("s3:GetObject", Thing("`a.jpg` in raw-images", "arn:aws:s3:::raw-images/a.jpg"), "It lists the items."),
        no("s3:PutObject", Thing("`a.jpg` in features", "arn:aws:s3:::features/a.jpg"), "Jobs write outputs."),
        no("s3:GetObject", Thing("`a.jpg` in payroll", "arn:aws:s3:::payroll/a.jpg"), "No stack declares it."),
        yes("sqs:ReceiveMessage", EVENTS, "It reads which files have arrived."),
        no("sqs:ReceiveMessage", AUDIOS_EVENTS, "The events are another team's."),
        no("sqs:SendMessage", EVENTS, "Only the bucket tells of files."),
        yes("sns:Publish", Thing("the stack's topic for jobs", CHANNEL), "It tells that a template is paused."),
        yes("logs:PutLogEvents", LINES, "Its lines are beside the workers'."),
        no("logs:PutLogEvents", AUDIOS_LINES, "The lines are another team's."),
        no("iam:PassRole", JOBS_ROLE, "It makes nothing that has a role."),
        no("lambda:InvokeFunction", FUNCTION, "Only schedules call it."),
        no("scheduler:UpdateSchedule", SCHEDULE, "When templates are sent is for the stack file to say."),
    ),
    *of(
        "schedules",
        yes("lambda:InvokeFunction", FUNCTION, "They wake the sender up."),
        no("lambda:InvokeFunction", OTHER_FUNCTION, "It is not the sender's."),
        no("lambda:UpdateFunctionCode", FUNCTION, "They only call it."),
        no("batch:SubmitJob", _queue("cpu"), "The sender submits."),
    ),
    *of(
        "submitter",
        yes("s3:PutObject", TEMPLATE, "People save templates."),
        no("s3:DeleteObject", TEMPLATE, "Submitters delete nothing."),
        no("lambda:InvokeFunction", FUNCTION, "`tidemill template send` sends with one's own login."),
        no("scheduler:UpdateSchedule", SCHEDULE, "When templates are sent is for the stack file to say."),
        no("sqs:SendMessage", EVENTS, "Only the bucket tells of files."),
    ),
    *of(
        "job",
        no("s3:PutObject", TEMPLATE, "An item could have itself sent every night."),
        no("s3:PutObject", NOTE, "An item could keep a time from being sent."),
        no("s3:GetObject", NOTE, "An item could foretell a job's id, and write it down first."),
        no("lambda:InvokeFunction", FUNCTION, "Only schedules call it."),
        no("sqs:DeleteMessage", EVENTS, "An item could hide files from the sender."),
    ),
    *of(
        "deploy-dev",
        yes("lambda:UpdateFunctionCode", FUNCTION, "A new worker's image is the sender's as well."),
        no("lambda:UpdateFunctionCode", PRODS_FUNCTION, "It is another environment's."),
        no("lambda:UpdateFunctionCode", OTHER_FUNCTION, "It is not a stack's."),
        no("lambda:InvokeFunction", FUNCTION, "Only schedules call it."),
        yes("scheduler:UpdateSchedule", SCHEDULE, "Stack files say when templates are sent."),
        no("scheduler:UpdateSchedule", PRODS_SCHEDULE, "It is another environment's."),
        yes("sqs:SetQueueAttributes", EVENTS, "A stack makes the queue and its policy."),
        no("sqs:ReceiveMessage", EVENTS, "CI reads no names of files."),
        no("sqs:DeleteQueue", PRODS_EVENTS, "It is another environment's."),
        yes("ecr:SetRepositoryPolicy", WORKERS, "Lambda may pull the worker's image alone."),
        yes("iam:PassRole", SENDERS_ROLE, "The function runs with it."),
        no("iam:PassRole", JOBS_ROLE, "A function would run with the jobs' rights."),
    ),
]
