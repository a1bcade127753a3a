"""The table of AWS resource types, whose operations are boto3's methods."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from botocore import xform_name

from localcloud.aws.models import service_model
from localcloud.provider.table import Kind, Row

from . import odd


class Aws(Kind):
    """AWS's types, on botocore's service models."""

    prefix = "aws:"
    folder = Path(__file__).parent / "types"
    words = frozenset({"region", "account", "partition", "location"})
    common = frozenset({"region"})

    def shape(self, service: str, operation: str) -> Any:
        """Return botocore's shape of a boto3 method's parameters."""
        return operation_model(service, operation).input_shape

    def check(self, token: str, inputs: dict[str, Any]) -> None:
        odd.check(inputs)

    def replaces(self, rule: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        return odd.replaces(rule, old, new)


@functools.cache
def operation_model(service: str, method: str) -> Any:
    """Return botocore's model (OperationModel) of a boto3 method."""
    model = service_model(service)
    name = next(name for name in model.operation_names if xform_name(name) == method)
    return model.operation_model(name)


AWS = Aws()


def rows() -> dict[str, Row]:
    return AWS.rows


def row(token: str) -> Row:
    """Return the row of a type token.

    Raises:
        UnknownTypeError: The table has none; the text names the nearest.
    """
    return AWS.row(token)
