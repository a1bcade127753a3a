"""CI's permissions for the senders of an environment's stacks."""

from __future__ import annotations

import pulumi

from ..policy import Statement, allow
from .home import FUNCTION, NAMED, QUEUE, Home, actions
from .policies import WRITE_IAM, WRITE_ROLE

_ROLES = ["iam::{account}:role/*-{environment}-sender-*"]
_WRITE = {
    "ecr": "DeleteRepositoryPolicy SetRepositoryPolicy",
    "events": "DeleteRule PutRule PutTargets RemoveTargets TagResource UntagResource",
    "lambda": "CreateFunction DeleteFunction TagResource UntagResource UpdateFunctionCode UpdateFunctionConfiguration",
    "scheduler": "CreateSchedule CreateScheduleGroup DeleteSchedule DeleteScheduleGroup TagResource UntagResource "
    "UpdateSchedule",
    "sqs": "CreateQueue DeleteQueue SetQueueAttributes TagQueue UntagQueue",
}
_NAMED = {
    "ecr": NAMED["ecr"],
    "events": ["events:*:{account}:rule/*-{environment}-sender-*"],
    "lambda": [FUNCTION],
    "scheduler": [
        "scheduler:*:{account}:schedule-group/*-{environment}-sender-*",
        "scheduler:*:{account}:schedule/*-{environment}-sender-*/*",
    ],
    "sqs": [QUEUE],
}


def sender_statements(home: Home, environment: str, boundary: pulumi.Input[str]) -> list[Statement]:
    """Create and change functions, schedules, queues of events and their rules, and their roles, which are bounded.

    CI invokes no function, and reads no message.
    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_awslambda.html and
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneventbridgescheduler.html
    """
    roles = home.arns(_ROLES, environment)
    passed = [home.account.principal(service) for service in ("lambda", "scheduler")]
    return [
        *(allow(actions(service, words), home.arns(_NAMED[service], environment)) for service, words in _WRITE.items()),
        allow(actions("iam", WRITE_ROLE), roles, {"StringEquals": {"iam:PermissionsBoundary": boundary}}),
        allow(actions("iam", WRITE_IAM), roles),
        allow(["iam:PassRole"], roles, {"StringEquals": {"iam:PassedToService": passed}}),
    ]
