"""Every file system is encrypted, requires TLS, and names who may mount it.

Without a policy of its own, EFS lets in every client that reaches it. The rule looks at the whole stack, because the
policy is a separate resource.
Source: https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
"""

from collections.abc import Iterator
from typing import Any

from .common.companions import companions
from .common.documents import UnreadableDocumentError, admits_everybody, denies_plain, parse, statements
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule
from .common.values import UNKNOWN, flag, look

FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"
POLICY = "aws:efs/fileSystemPolicy:FileSystemPolicy"
CLIENT = tuple(f"elasticfilesystem:client{action}" for action in ("mount", "rootaccess", "write"))


@stack_rule("Every file system is encrypted, requires TLS and admits no anonymous client.", CRITICAL, FILE_SYSTEM)
def violations(args: Stack) -> StackViolations:
    for system in (r for r in args.resources if r.resource_type == FILE_SYSTEM):
        encrypted = flag(look(system.props, "encrypted"))
        if encrypted is not UNKNOWN and encrypted is not True:
            yield "its files are not encrypted. Set encrypted to true; only a new file system can be.", system.urn
        policies = companions(args.resources, POLICY, "fileSystemId", system, ("id",))
        if not policies:
            yield "it admits every client that reaches it. Add a FileSystemPolicy that names a role.", system.urn
        for policy in policies:
            for message in _opened(look(policy.props, "policy")):
                yield message, system.urn


def _opened(policy: Any) -> Iterator[str]:
    try:
        document = parse(policy)
    except UnreadableDocumentError as error:
        yield f"{error}. Name the role that mounts it, and deny plain transport."
        return
    if document is UNKNOWN:
        return
    listed = statements(document)
    if not any(denies_plain(each, *CLIENT) for each in listed):
        yield 'clients may come without TLS. Deny "*" to everybody where aws:SecureTransport is "false".'
    if any(map(admits_everybody, listed)):
        yield "its policy admits everybody. Name the role that mounts it."
