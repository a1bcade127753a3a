"""State: data that would be deleted, replaced, kept for a shorter time or left unprotected."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ops.engine_messages import remedy
from ops.review import expiry
from ops.review.diffs import at, parts, properties
from ops.review.document import State, Step
from ops.review.models import Finding, Kind
from ops.review.values import is_unknown, number, objects

HOLDS = {
    "aws:s3/bucket:Bucket": "the bucket and every object in it",
    "aws:s3/bucketV2:BucketV2": "the bucket and every object in it",
    "aws:ecr/repository:Repository": "the repository and every image in it",
    "aws:cloudwatch/logGroup:LogGroup": "the log group and every line in it",
    "aws:kms/key:Key": "the key, and with it whatever is encrypted with it",
    "aws:sqs/queue:Queue": "the queue and its messages",
    "aws:efs/fileSystem:FileSystem": "the file system and every file in it",
    "aws:dynamodb/table:Table": "the table and every row in it",
    "aws:secretsmanager/secret:Secret": "the secret",
    "gcp:storage/bucket:Bucket": "the bucket and every object in it",
    "gcp:artifactregistry/repository:Repository": "the repository and every image in it",
    "gcp:logging/projectBucketConfig:ProjectBucketConfig": "the log bucket and every line in it",
    "gcp:bigquery/dataset:Dataset": "the dataset and every table in it",
    "gcp:bigquery/table:Table": "the table and every row in it",
    "gcp:pubsub/topic:Topic": "the topic and its undelivered messages",
    "gcp:pubsub/subscription:Subscription": "the subscription and every message in it",
    "gcp:kms/cryptoKey:CryptoKey": "the key, and with it whatever is encrypted with it",
    "gcp:kms/keyRing:KeyRing": "the key ring",
    "gcp:filestore/instance:Instance": "the file system and every file in it",
    "gcp:secretmanager/secret:Secret": "the secret and its versions",
}
"""What is lost with a resource of a type."""

# Retention in days or seconds: less is a loss.
_KEPT = {
    "aws:cloudwatch/logGroup:LogGroup": ("retentionInDays",),
    "gcp:logging/projectBucketConfig:ProjectBucketConfig": ("retentionDays",),
    "gcp:pubsub/subscription:Subscription": ("messageRetentionDuration", "expirationPolicy.ttl"),
    "gcp:pubsub/topic:Topic": ("messageRetentionDuration",),
    "gcp:storage/bucket:Bucket": ("softDeletePolicy.retentionDurationSeconds",),
    "aws:kms/key:Key": ("deletionWindowInDays",),
}
# Rules that delete images by age or number: any change is worth a look.
_EXPIRY = {
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": "policy",
    "gcp:artifactregistry/repository:Repository": "cleanupPolicies",
}
_COPIES = {
    "aws:cloudwatch/logSubscriptionFilter:LogSubscriptionFilter": "log lines are no longer copied to the archive",
    "gcp:logging/projectSink:ProjectSink": "log lines are no longer copied there",
}
_RETAINS = ("aws:cloudwatch/logGroup:LogGroup", "gcp:logging/projectBucketConfig:ProjectBucketConfig")
_REPLICATION = "aws:s3/bucketReplicationConfig:BucketReplicationConfig"
_OVERWRITTEN = "no longer keeps overwritten objects"
_KEY = "new objects are no longer encrypted with your key"
_DISKS = "disks of new machines are no longer encrypted with your key"
_FLOW_LOG = "aws:ec2/flowLog:FlowLog"
_FLOWS = "machines' connections are no longer logged"
_TEMPLATES = (
    "aws:ec2/launchTemplate:LaunchTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
)
_SETTINGS: tuple[tuple[str, str, Any, Kind, str], ...] = (
    (
        "aws:s3/bucketVersioning:BucketVersioning",
        "versioningConfiguration.status", "Enabled", "state-expires", _OVERWRITTEN,
    ),
    (
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "rules[0].applyServerSideEncryptionByDefault.kmsMasterKeyId", None, "protection-lifted", _KEY,
    ),
    (
        "aws:efs/backupPolicy:BackupPolicy",
        "backupPolicy.status", "ENABLED", "state-expires", "no longer backs up the file system",
    ),
    (
        _REPLICATION,
        "rules", None, "state-expires", "new objects are no longer copied to the replica",
    ),
    ("gcp:storage/bucket:Bucket", "versioning.enabled", True, "state-expires", _OVERWRITTEN),
    ("gcp:storage/bucket:Bucket", "encryption.defaultKmsKeyName", None, "protection-lifted", _KEY),
    ("aws:ec2/flowLog:FlowLog", "vpcId", None, "protection-lifted", _FLOWS),
    ("gcp:compute/subnetwork:Subnetwork", "logConfig", None, "protection-lifted", _FLOWS),
    (_TEMPLATES[0], "blockDeviceMappings[0].ebs.kmsKeyId", None, "protection-lifted", _DISKS),
    (_TEMPLATES[1], "disks[0].diskEncryptionKey.kmsKeySelfLink", None, "protection-lifted", _DISKS),
    (
        "gcp:pubsub/topic:Topic",
        "kmsKeyName", None, "protection-lifted", "new messages are no longer encrypted with your key",
    ),
)  # fmt: skip
"""Settings of what holds data, on AWS resources of their own: type, path, value while it is on (None for any), and the
kind and title of the finding when it is off."""
_OWNERS = ("bucket", "fileSystemId", "vpcId")
_STOPS = "tidemill:index:Protection"
# Flags that let a delete remove the contents too.
_FORCE = ("forceDestroy", "forceDelete", "deleteContentsOnDestroy")


class _Copying(NamedTuple):
    """A rule that copies."""

    prefix: str
    bucket: Any
    deletions: bool
    """Whether it copies deletions too."""

    @property
    def what(self) -> str:
        return f"new objects under {self.prefix}" if self.prefix else "new objects"


def findings(steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kinds `state-lost`, `state-expires` and `protection-lifted`."""
    created, deleted = ({step.urn for step in steps if step.op == op} for op in ("create", "delete"))
    for step in steps:
        yield from _lost(step)
        if step.op == "import" and step.type in HOLDS:
            title = "takes over what is there: this stack's rules of deletion, access and encryption replace its own"
            yield Finding("high", "state-expires", step.name, step.urn, title)
        if step.op != "delete":
            yield from _unprotected(step)
        if step.op in ("update", "replace"):
            yield from _kept_shorter(step)
        fresh = step.type in HOLDS or _owners(step.after) & created
        if step.op in ("update", "replace") or (step.op == "create" and not fresh):
            yield from expiry.findings(step)
        yield from _switched_off(step, deleted)
        yield from _copied(step)
        yield from _narrower(step)
        yield from _fewer_flows(step)
    if any(step.after for step in steps if step.type in _RETAINS):
        for step in steps:
            if step.type in _COPIES and step.op == "delete":
                told = "What retention deletes is then gone for good."
                yield Finding("high", "state-expires", step.name, step.urn, _COPIES[step.type], (told,))


def unlocked(steps: list[Step]) -> Iterator[Finding]:
    """The component that stops a plain destroy goes, or no longer does; it is no resource of a cloud."""
    for step in steps:
        if (
            step.type == _STOPS
            and step.old_state
            and step.old_state.protect
            and not (step.after and step.after.protect)
        ):
            told = ("A plain `pulumi destroy` deletes what is not protected before it stops at the first bucket.",)
            yield Finding("high", "protection-lifted", step.name, step.urn, "no longer protects the stack", told)


def _lost(step: Step) -> Iterator[Finding]:
    held = HOLDS.get(step.type)
    if not held or step.op not in ("delete", "replace"):
        return
    kept = step.op == "delete" and step.old_state is not None and step.old_state.retain_on_delete
    if kept:
        yield Finding("medium", "state-lost", step.name, step.urn, f"removed from the stack; the cloud keeps {held}")
        return
    verb = "deletes" if step.op == "delete" else "replaces, so deletes,"
    yield Finding("critical", "state-lost", step.name, step.urn, f"{verb} {held}", (*_why(step), *_stopped(step)))


def _why(step: Step) -> tuple[str, ...]:
    reasons = sorted({*step.replace_reasons})
    return (f"Replaced because of {', '.join(reasons)}.",) if step.op == "replace" and reasons else ()


def _stopped(step: Step) -> tuple[str, ...]:
    if not step.stopped:
        return ("It is not protected: `up` will do this.",)
    return (f"It is protected: the engine stops here. {remedy(step.urn)}",)


def _unprotected(step: Step) -> Iterator[Finding]:
    if not step.old_state or not step.new_state or not step.old_state.custom:
        return
    severity = "critical" if step.type in HOLDS else "high"
    if step.old_state.protect and not step.new_state.protect:
        after = ("Later previews will no longer stop if this is replaced or deleted.",)
        yield Finding(severity, "protection-lifted", step.name, step.urn, "is no longer protected", after)
    for flag in _FORCE:
        if step.new.get(flag) is True and step.old.get(flag) is not True:
            title = f"may be deleted with its contents ({flag})"
            yield Finding(severity, "protection-lifted", step.name, step.urn, title)


def _kept_shorter(step: Step) -> Iterator[Finding]:
    for path in _KEPT.get(step.type, ()):
        old, new = (number(at(side, parts(path))) for side in (step.old, step.new))
        if path == "retentionInDays":
            old, new = old or None, new or None  # 0 is for ever.
        if new is not None and (old is None or new < old):
            before = at(step.old, parts(path))
            title = f"shorter retention: {path} {'unlimited' if before in (None, '', 0) else before} to "
            yield Finding("high", "state-expires", step.name, step.urn, f"{title}{at(step.new, parts(path))}")
    key = _EXPIRY.get(step.type)
    rules = [row for row in properties(step) if parts(row.path)[0] == key] if key else []
    if rules:
        lines = tuple(f"{row.path}: {row.old or 'none'} to {row.new or 'none'}" for row in rules)
        kept = [row for row in rules if row.path.endswith(("countNumber", "keepCount")) and row.new]
        title = "deletes other images"
        if len(kept) == 1:
            unit = at(_plain(step.new, key), (*parts(kept[0].path)[:-1], "countUnit"))
            was = kept[0].old or ("for ever" if unit else "all")
            title = (
                f"keeps images {kept[0].new} {unit}, was {was}" if unit else f"keeps {kept[0].new} images, was {was}"
            )
        yield Finding("medium", "state-expires", step.name, step.urn, title, lines)


def _narrower(step: Step) -> Iterator[Finding]:
    """A copy of log lines that takes others than before."""
    for key in ("filter", "filterPattern"):
        old, new = step.old.get(key), step.new.get(key)
        if step.type in _COPIES and step.op == "update" and old != new and not is_unknown(new):
            told = (f"was {old or 'every line'}", f"is {new or 'every line'}")
            less = bool(new) and str(old or "") in str(new)
            title = "keeps fewer log lines" if less else "keeps other log lines"
            yield Finding("high" if less else "medium", "state-expires", step.name, step.urn, title, told)


def _fewer_flows(step: Step) -> Iterator[Finding]:
    """Flow logs that leave out connections which they had before."""
    kind, word = "protection-lifted", "logs fewer of the machines' connections"
    traffic = step.new.get("trafficType")
    if step.type == _FLOW_LOG and step.old.get("trafficType") == "ALL" and traffic in ("ACCEPT", "REJECT"):
        yield Finding("high", kind, step.name, step.urn, f"{word}: {traffic}, was ALL")
    shares = [number(at(side, ("logConfig", "flowSampling"))) for side in (step.old, step.new)]
    if shares[0] and shares[1] is not None and shares[1] < shares[0]:
        yield Finding("high", kind, step.name, step.urn, f"{word}: {shares[1]:.0%}, was {shares[0]:.0%}")


def _plain(inputs: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Inputs with a property as data that is JSON in a text."""
    with suppress(TypeError, ValueError):
        return {str(key): json.loads(inputs.get(str(key), ""))}
    return inputs


def _owners(state: State | None) -> set[str]:
    """Resources that hold the data of a setting."""
    sources = state.property_dependencies if state else {}
    return {urn for key in _OWNERS for urn in sources.get(key) or []}


def _switched_off(step: Step, deleted: set[str]) -> Iterator[Finding]:
    if step.op == "delete" and (step.type in (*HOLDS, *_TEMPLATES) or _owners(step.old_state) & deleted):
        return  # The holder of the data goes, which says more.
    for kind, path, on, finding, title in _SETTINGS:
        sides = (at(side, parts(path)) for side in (step.old, step.new))
        was, still = (bool(value) if on is None else value == on for value in sides)
        if step.type == kind and was and not still:
            yield Finding("high", finding, step.name, step.urn, title)


def _copied(step: Step) -> Iterator[Finding]:
    """A replication that stays, and copies less than before, elsewhere, or deletions too."""
    if step.type != _REPLICATION or not step.after or is_unknown(step.new.get("rules")):
        return
    old, new = (_copying(side.get("rules")) for side in (step.old, step.new))
    told: list[str] = []
    for name, rule in old.items():
        after = new.get(name)
        if after is None or not rule.prefix.startswith(after.prefix):
            told.append(f"{rule.what} are no longer copied to the replica")
    for name, rule in new.items():
        before = old.get(name)
        if rule.deletions and not (before and before.deletions):
            told.append("deletions are copied to the replica: it no longer has what is lost")
        if before and rule.bucket != before.bucket and not is_unknown(rule.bucket):
            told.append(f"{rule.what} are copied to {rule.bucket}, were to {before.bucket}")
    for title in dict.fromkeys(told):
        yield Finding("high", "state-expires", step.name, step.urn, title)


def _copying(rules: Any) -> dict[str, _Copying]:
    """The rules that are switched on, by their ids."""
    return {
        str(rule.get("id")): _Copying(
            str(at(rule, parts("filter.prefix")) or ""),
            at(rule, parts("destination.bucket")),
            at(rule, parts("deleteMarkerReplication.status")) == "Enabled",
        )
        for rule in objects(rules)
        if rule.get("status") == "Enabled"
    }
