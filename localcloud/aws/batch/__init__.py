"""AWS Batch as moto does not offer it: jobs run as real processes on emulated machines, in Batch's own states."""

from localcloud.aws.batch.api import BatchApi
from localcloud.aws.batch.core import BatchError, Host, Settings
from localcloud.aws.batch.wire import BatchWsgi

__all__ = ["BatchApi", "BatchError", "BatchWsgi", "Host", "Settings"]
