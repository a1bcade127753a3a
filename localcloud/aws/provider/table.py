"""The table of AWS resource types, whose operations are boto3's methods.

A row is short where a type does as most do. These fields follow from others unless it has them itself:

- `service`: the token's module. `source`: the file of the type's name in the Terraform provider, not read for this.
- `put`: both `create` and the only `update`. `of`: the property that names what it is a part of, with that one's id.
- `id` and `replace`: the name, if one may be made. `read` of what is put: `get_…`. `delete`: of what is read.
- `tags`: the service's calls, if the creation takes `$tagsAll`.
- `"+": [vpcId]` among parameters: `VpcId: $vpcId`. `gives: [vpcId]`: `vpcId: VpcId` in `out`.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from botocore import xform_name

from localcloud.aws.models import service_model
from localcloud.provider.table import Kind, Row, references

from . import odd

LOWER = {"batch", "ecr", "logs"}
"""Services whose own names begin with a small letter, as properties do."""
TAGGED: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(LOWER, ("resourceArn", "$out.arn")),
    **dict.fromkeys(("budgets", "cloudwatch", "events"), ("ResourceARN", "$out.arn")),
    "ec2": ("Resources", ["$id"]),
    "efs": ("ResourceId", "$id"),
    "kms": ("KeyId", "$id"),
    "lambda": ("Resource", "$out.arn"),
    "scheduler": ("ResourceArn", "$out.arn"),
    "secretsmanager": ("SecretId", "$id"),
    "sns": ("ResourceArn", "$id"),
}
"""What names a resource in a service's calls for tags. The other services have such calls for each type."""


class Aws(Kind):
    """AWS's types, on botocore's service models."""

    prefix = "aws:"
    folder = Path(__file__).parent / "types"
    words = frozenset({"region", "account", "partition", "location"})
    common = frozenset({"region"})

    def shape(self, service: str, operation: str) -> Any:
        """Return botocore's shape of a boto3 method's parameters."""
        return operation_model(service, operation).input_shape

    def made(self, token: str, fields: dict[str, Any]) -> Row:
        """The row of an entry; the module says what follows from what."""
        _, place, kind = token.split(":")
        service = fields.get("service", place.partition("/")[0])
        file = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
        row = {"service": service, "source": f"TF/{service}/{file}.go, assumed"} | _written(fields, service)
        of, put = row.pop("of", None), row.pop("put", None)
        if put:
            row |= {"create": put, "update": [put]}
        if of:
            row = {"id": f"={{{of}}}", **row, "replace": [of, *row.get("replace", [])]}
            row["required"] = [of, *row.get("required", [])]
            row["out"] = {of: "={id}", **row.get("out", {})}
        if name := row.get("autoname", {}).get("property"):
            row = {"id": f"={{{name}}}", "replace": [name]} | row
        verb, _, noun = row["create"]["op"].partition("_")
        if put:
            named = {key: "$id" for key, value in put["params"].items() if value == f"${of}"}
            row.setdefault("read", [{"op": f"get_{noun}", "params": named}])
        first = row["read"][0]
        if verb in ("create", "put"):
            params = first.get("params", {}).items()
            one = dict((key[:-1], value[0]) if isinstance(value, list) else (key, value) for key, value in params)
            row.setdefault("delete", [{"op": f"delete_{noun}", "params": one}])
        if "tagsAll" in references([row["create"], row.get("then", [])]):
            row.setdefault("tags", _tagging(service, first))
        # Source: https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/provider/sdkv2/region.go
        row["replace"] = [*row.get("replace", []), "region"]
        return Row(token=token, kind=self, **row)

    def check(self, token: str, inputs: dict[str, Any]) -> None:
        odd.check(inputs)

    def replaces(self, rule: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        return odd.replaces(rule, old, new)


def _written(fields: Any, service: str) -> Any:
    """A part of an entry with its `gives` and `"+"` written out."""
    if isinstance(fields, list):
        return [_written(item, service) for item in fields]
    if not isinstance(fields, dict):
        return fields
    made = {key: _written(item, service) for key, item in fields.items() if key not in ("gives", "+")}
    if "gives" in fields:
        made["out"] = {**{name: _own_name(name, service) for name in fields["gives"]}, **made.get("out", {})}
    return made | {_own_name(name, service): f"${name}" for name in fields.get("+", [])}


def _own_name(name: str, service: str) -> str:
    return name if service in LOWER else name[:1].upper() + name[1:]


def _tagging(service: str, read: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls that add and remove tags of what a call reads."""
    key, value = TAGGED.get(service, ("", ""))
    which, noun = ({key: value}, "resource") if key else (read["params"], read["op"].partition("_")[2])
    add, remove = ("create_tags", "delete_tags") if service == "ec2" else (f"tag_{noun}", f"untag_{noun}")
    word = "ResourceTag" if service == "budgets" else _own_name("tag", service)
    keys = "Tags" if service == "ec2" else f"{word}Keys"
    return [
        {"op": add, "params": {**which, f"{word}s": "$added.tagsAll"}},
        {"op": remove, "params": {**which, keys: "$removed.tagsAll"}},
    ]


@functools.cache
def operation_model(service: str, method: str) -> Any:
    """Return botocore's model (OperationModel) of a boto3 method."""
    model = service_model(service)
    name = next(name for name in model.operation_names if xform_name(name) == method)
    return model.operation_model(name)


AWS = Aws()
