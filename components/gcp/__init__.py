"""GCP: one component per module, each usable alone."""

from ..versions import check_sdk

check_sdk("pulumi-gcp", "9", "10")
