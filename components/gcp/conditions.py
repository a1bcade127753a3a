"""Conditions of IAM bindings on a bucket: the objects that a grant covers."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_gcp as gcp

LISTED = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
"""The prefix of a list call, empty for other calls.
Source: https://cloud.google.com/iam/docs/conditions-attribute-reference"""


def objects(bucket: pulumi.Input[str], prefixes: Sequence[str], names: Sequence[str] = ()) -> pulumi.Output[str]:
    """The expression for objects below prefixes, objects of exact names, and lists below the prefixes.

    It can have at most 12 logical operators, so at most 6 prefixes.
    Source: https://cloud.google.com/iam/docs/conditions-overview
    """
    start = pulumi.Output.concat("projects/_/buckets/", bucket, "/objects/")
    terms = [
        *(pulumi.Output.concat('resource.name.startsWith("', start, prefix, '")') for prefix in prefixes),
        *(pulumi.Output.concat('resource.name == "', start, name, '"') for name in names),
        *(f'{LISTED}.startsWith("{prefix}")' for prefix in prefixes),
    ]
    return pulumi.Output.all(*terms).apply(" || ".join)


def condition(title: str, expression: pulumi.Input[str]) -> gcp.storage.BucketIAMMemberConditionArgs:
    return gcp.storage.BucketIAMMemberConditionArgs(title=title, expression=expression)
