"""AWS: one component per module, each usable alone."""

from ..versions import check_sdk

check_sdk("pulumi-aws", "7.30", "8")
