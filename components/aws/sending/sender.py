"""The sender: a function that sends templates at their times, and when files arrive."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from ...base import as_args, token
from ..account import account_of
from ..policy import Statement, allow, grant, role_of, trust
from .schedule_times import six_fields

FUNCTION_SECONDS = 900
"""The longest that Lambda allows. Source: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
MEMORY_MIB = 1024
"""Lambda gives processors by memory: with less, a list of half a million names would take longer than a minute."""
_ENTRY = "/tidemill/tidemill-worker"
_TICK = "rate(1 minute)"


@dataclass
class AwsSenderArgs:
    """Arguments of `AwsSender`."""

    image: pulumi.Input[str]
    """The worker's image, in a private ECR repository of the same region whose policy lets Lambda pull."""
    pipeline_uri: pulumi.Input[str]
    """URI of the descriptor, which has the schedules and arrivals."""
    log_group: pulumi.Input[str]
    """Log group of the function's lines."""
    crons: dict[str, str] = field(default_factory=dict)
    """When it is called, in five fields, by the name of the schedule."""
    timezones: dict[str, str] = field(default_factory=dict)
    """Whose wall clock the fields are of, by the name of the schedule; UTC where it is left out."""
    arrivals: bool = False
    """True if it also looks for new files, once per minute."""
    permission_boundary: pulumi.Input[str] | None = None
    """ARN of a policy that bounds every role."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsSender(pulumi.ComponentResource):
    """A function of the worker's image, and schedules that call it. Nothing else may.

    Makes: a Lambda function with a role that has no permissions until another component grants some, a schedule group
    with a schedule for each of `crons` and, for arrivals, one for every minute, and the schedules' role, which may
    invoke the function.

    Costs while idle: nothing with schedules alone, whose calls cost less than a cent per month; with `arrivals`
    about $0.42 per month.

    Example:
        ```python
        args = AwsSenderArgs(
            image="123456789012.dkr.ecr.us-west-2.amazonaws.com/vision-dev/tidemill-worker@sha256:" + 64 * "0",
            pipeline_uri="s3://vision-dev-store/pipeline.json",
            log_group="vision-dev-logs",
            crons={"nightly": "0 2 * * *"},
            timezones={"nightly": "Europe/Berlin"},
        )
        sender = AwsSender("vision-dev-sender", args)
        pulumi.export("sender", sender.function_name)
        ```
    """

    role: aws.iam.Role
    """The function's role."""
    function_name: pulumi.Output[str]
    """Name of the function."""

    def __init__(self, name: str, args: AwsSenderArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsSenderArgs, args)
        super().__init__(token(AwsSender), name, None, opts)
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self)
        self.role = self._role("function", trust("lambda.amazonaws.com"))
        function = aws.lambda_.Function(
            f"{name}-function",
            description="Sends the templates of a Tidemill pipeline",
            package_type="Image",
            image_uri=args.image,
            image_config=aws.lambda_.FunctionImageConfigArgs(entry_points=[_ENTRY], commands=["sender"]),
            architectures=["x86_64"],
            role=self.role.arn,
            timeout=FUNCTION_SECONDS,
            memory_size=MEMORY_MIB,
            environment=aws.lambda_.FunctionEnvironmentArgs(variables={"TIDEMILL_PIPELINE": args.pipeline_uri}),
            logging_config=aws.lambda_.FunctionLoggingConfigArgs(log_format="Text", log_group=args.log_group),
            tags=args.tags,
            opts=self._child,
        )
        self.function_name = function.name
        self._call(name, function)
        self.register_outputs({"function_name": self.function_name})

    def grant_submit(self, statements: Sequence[pulumi.Input[Statement]]) -> None:
        """Let the sender submit, by a service's statements."""
        grant(self, "submit", self.role, statements)

    def grant_receive(self, queues: Sequence[pulumi.Input[str]]) -> None:
        """Let the sender take the messages of queues, by ARN."""
        if queues:
            grant(self, "receive", self.role, [allow(["sqs:DeleteMessage", "sqs:ReceiveMessage"], queues)])

    def _role(self, suffix: str, assume: pulumi.Input[str]) -> aws.iam.Role:
        return role_of(self, suffix, assume, self._args.permission_boundary, self._args.tags)

    def _call(self, name: str, function: "aws.lambda_.Function") -> None:
        """Make the schedules. Their names are those of the stack file, and no such name begins with an underscore."""
        account, args = account_of(self), self._args
        caller = self._role("schedules", trust("scheduler.amazonaws.com", account.number))
        invoke = grant(self, "invoke", caller, [allow(["lambda:InvokeFunction"], [function.arn])])
        group = aws.scheduler.ScheduleGroup(f"{name}-group", tags=args.tags, opts=self._child)

        def schedule(key: str, expression: str, timezone: str, event: Mapping[str, object]) -> None:
            aws.scheduler.Schedule(
                f"{name}-schedule-{key}",
                name=key,
                group_name=group.name,
                schedule_expression=expression,
                schedule_expression_timezone=timezone,
                flexible_time_window=aws.scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
                target=aws.scheduler.ScheduleTargetArgs(arn=function.arn, role_arn=caller.arn, input=json.dumps(event)),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[invoke]),
            )

        for key, cron in args.crons.items():
            timezone = args.timezones.get(key, "UTC")
            event = {"schedule": key, "time": "<aws.scheduler.scheduled-time>"}
            schedule(key, six_fields(cron, timezone), timezone, event)
        if args.arrivals:
            schedule("_arrivals", _TICK, "UTC", {"arrivals": True})
