"""The ways out that hostile items try, each with the reason why it leads nowhere, as a regular expression."""

from __future__ import annotations

_DENIED, _READ_ONLY, _MAY_NOT = "AccessDenied", "Read-only file system", "Operation not permitted"
_NOTHING = "there is no such thing in this container"

_TO_THE_MACHINE = {
    "the machine's disk": _MAY_NOT,
    "the machine's root by chroot": _NOTHING,
    "the machine's root by processes": _NOTHING,
    "processes of the machine": _NOTHING,
    "sockets that start containers": _NOTHING,
    "the kernel's core pattern": _READ_ONLY,
    "the kernel's own keys": f"{_READ_ONLY}|{_NOTHING}",
    "a control group's agent": f"{_READ_ONLY}|{_NOTHING}",
    "a reboot": _MAY_NOT,
}

AWS = {
    "a stranger's registry": "is not in the repository",
    "another account's registry": "is not in the repository",
    "another region's registry": "is not in the repository",
    "an image that is no worker": "is not in the repository",
    "a path for a digest": "is not an image of ECR by digest",
    "a worker that nobody pushed": "ECR has no such image",
    "a line without an end": "a line has at most",
    "all connections": _NOTHING,
    "a socket of one's own": _READ_ONLY,
    "the launcher of the next worker": _READ_ONLY,
    "a tree for the next worker": _READ_ONLY,
    "the tree that runs": _READ_ONLY,
    "a false Spot notice": _READ_ONLY,
    "a writable mount": _MAY_NOT,
    "a writable mount by a namespace": _MAY_NOT,
    **_TO_THE_MACHINE,
    "the machine's role": "URLError",
    "another task's credentials": "NoIdInRequest",
    "all tasks' credentials": "NoIdInRequest",
    "the execution role": _DENIED,
    "the submitters' role": _DENIED,
    "the machine's role by name": _DENIED,
    "a secret": _DENIED,
    "a job of its own": _DENIED,
    "a privileged definition": _DENIED,
    "the end of another job": _DENIED,
    "the worker of new machines": _DENIED,
    "what clients believe": _DENIED,
    "a file that other jobs read": _DENIED,
    "an output that others need": _DENIED,
    "another team's job": _DENIED,
    "another team's store": _DENIED,
    "the worker's repository": _DENIED,
    "a machine": "UnauthorizedOperation",
    "a user": _DENIED,
    "a path on the submitter's laptop": "stored; a fetch refuses it",
    "the submitter's terminal": "printed; logs show it as text",
}

_FORBIDDEN = "403 "

GCP = {
    "a job of its own": _FORBIDDEN,
    "a job that the reconciler begins": _FORBIDDEN,
    "a job that waits for ever": _FORBIDDEN,
    "the reconciler's report": _FORBIDDEN,
    "the reconciler's memory": _FORBIDDEN,
    "a machine that always stays": _FORBIDDEN,
    "the reconciler's program": _FORBIDDEN,
    "the reconciler's account": _FORBIDDEN,
    "the reconciler's token": "404 ",
    "what clients believe": _FORBIDDEN,
    "a file that other jobs read": _FORBIDDEN,
    "another team's job": _FORBIDDEN,
    "another team's store": _FORBIDDEN,
    "data that is only read": _FORBIDDEN,
    "a secret": _FORBIDDEN,
    "the store's own policy": _FORBIDDEN,
    "the project": _FORBIDDEN,
    "the worker's repository": _FORBIDDEN,
    "a path on the submitter's laptop": "stored; a fetch refuses it",
    "a script that runs at the machine's start": _FORBIDDEN,
    "a machine of its own": _FORBIDDEN,
    "a larger fleet": _FORBIDDEN,
    "the end of the fleet": _FORBIDDEN,
    **_TO_THE_MACHINE,
}
