"""The platform team's half: Pulumi components that provision a team's pipeline.

The distribution `tidemill-pulumi` installs this folder as `tidemill_pulumi`. A component is loaded when it is asked
for, with the SDK of its own cloud only: each takes seconds.

Example:
    ```python
    from tidemill_pulumi import Pipeline, PipelineArgs, Queue, StackConfig
    ```
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aws.bootstrap import AwsBootstrap, AwsBootstrapArgs
    from .aws.budget import AwsBudget, AwsBudgetArgs
    from .aws.ci.ci import AwsCi, AwsCiArgs
    from .aws.file_system import AwsFileSystem, AwsFileSystemArgs
    from .aws.identity import AwsIdentity, AwsIdentityArgs
    from .aws.logs import AwsLogs, AwsLogsArgs
    from .aws.monitoring.monitoring import AwsMonitoring, AwsMonitoringArgs
    from .aws.network import AwsNetwork, AwsNetworkArgs
    from .aws.registry import AwsRegistry, AwsRegistryArgs
    from .aws.sending.arrivals import AwsArrivals, AwsArrivalsArgs
    from .aws.sending.sender import AwsSender, AwsSenderArgs
    from .aws.shared import AwsShared, AwsSharedArgs
    from .aws.store import AwsStore, AwsStoreArgs
    from .config import (
        Access,
        AwsQueueOptions,
        Budget,
        ConfigError,
        CpuRange,
        Data,
        ExistingNetwork,
        FileSystem,
        GcpQueueOptions,
        Imports,
        Item,
        Logs,
        Machines,
        Monitoring,
        Mount,
        Network,
        NewNetwork,
        Queue,
        QueueImport,
        Registry,
        Rung,
        StackConfig,
        Store,
        Waiver,
    )
    from .gcp.bootstrap import GcpBootstrap, GcpBootstrapArgs
    from .gcp.budget import GcpBudget, GcpBudgetArgs
    from .gcp.ci import GcpCi, GcpCiArgs
    from .gcp.file_system import GcpFileSystem, GcpFileSystemArgs
    from .gcp.identity import GcpIdentity, GcpIdentityArgs
    from .gcp.logs import GcpLogs, GcpLogsArgs
    from .gcp.monitoring.monitoring import GcpMonitoring, GcpMonitoringArgs
    from .gcp.network import GcpNetwork, GcpNetworkArgs
    from .gcp.registry import GcpRegistry, GcpRegistryArgs
    from .gcp.sending.arrivals import GcpArrivals, GcpArrivalsArgs
    from .gcp.sending.sender import GcpSender, GcpSenderArgs
    from .gcp.shared import GcpShared, GcpSharedArgs
    from .gcp.store import GcpStore, GcpStoreArgs
    from .pipeline import Pipeline, PipelineArgs
    from .protection import Protection, ProtectionArgs
    from .services.batch.batch_queue import AwsBatchQueue, AwsBatchQueueArgs
    from .services.pubsub.reconciler import GcpReconciler, GcpReconcilerArgs
    from .services.pubsub.worker_pool import GcpWorkerPool, GcpWorkerPoolArgs

__all__ = [
    "Access",
    "AwsArrivals",
    "AwsArrivalsArgs",
    "AwsBatchQueue",
    "AwsBatchQueueArgs",
    "AwsBootstrap",
    "AwsBootstrapArgs",
    "AwsBudget",
    "AwsBudgetArgs",
    "AwsCi",
    "AwsCiArgs",
    "AwsFileSystem",
    "AwsFileSystemArgs",
    "AwsIdentity",
    "AwsIdentityArgs",
    "AwsLogs",
    "AwsLogsArgs",
    "AwsMonitoring",
    "AwsMonitoringArgs",
    "AwsNetwork",
    "AwsNetworkArgs",
    "AwsQueueOptions",
    "AwsRegistry",
    "AwsRegistryArgs",
    "AwsSender",
    "AwsSenderArgs",
    "AwsShared",
    "AwsSharedArgs",
    "AwsStore",
    "AwsStoreArgs",
    "Budget",
    "ConfigError",
    "CpuRange",
    "Data",
    "ExistingNetwork",
    "FileSystem",
    "GcpArrivals",
    "GcpArrivalsArgs",
    "GcpBootstrap",
    "GcpBootstrapArgs",
    "GcpBudget",
    "GcpBudgetArgs",
    "GcpCi",
    "GcpCiArgs",
    "GcpFileSystem",
    "GcpFileSystemArgs",
    "GcpIdentity",
    "GcpIdentityArgs",
    "GcpLogs",
    "GcpLogsArgs",
    "GcpMonitoring",
    "GcpMonitoringArgs",
    "GcpNetwork",
    "GcpNetworkArgs",
    "GcpQueueOptions",
    "GcpReconciler",
    "GcpReconcilerArgs",
    "GcpRegistry",
    "GcpRegistryArgs",
    "GcpSender",
    "GcpSenderArgs",
    "GcpShared",
    "GcpSharedArgs",
    "GcpStore",
    "GcpStoreArgs",
    "GcpWorkerPool",
    "GcpWorkerPoolArgs",
    "Imports",
    "Item",
    "Logs",
    "Machines",
    "Monitoring",
    "Mount",
    "Network",
    "NewNetwork",
    "Pipeline",
    "PipelineArgs",
    "Protection",
    "ProtectionArgs",
    "Queue",
    "QueueImport",
    "Registry",
    "Rung",
    "StackConfig",
    "Store",
    "Waiver",
]

MODULES = {
    "AwsArrivals": "aws.sending.arrivals",
    "AwsBatchQueue": "services.batch.batch_queue",
    "AwsBootstrap": "aws.bootstrap",
    "AwsBudget": "aws.budget",
    "AwsCi": "aws.ci.ci",
    "AwsFileSystem": "aws.file_system",
    "AwsIdentity": "aws.identity",
    "AwsLogs": "aws.logs",
    "AwsMonitoring": "aws.monitoring.monitoring",
    "AwsNetwork": "aws.network",
    "AwsRegistry": "aws.registry",
    "AwsSender": "aws.sending.sender",
    "AwsShared": "aws.shared",
    "AwsStore": "aws.store",
    "GcpArrivals": "gcp.sending.arrivals",
    "GcpBootstrap": "gcp.bootstrap",
    "GcpBudget": "gcp.budget",
    "GcpCi": "gcp.ci",
    "GcpFileSystem": "gcp.file_system",
    "GcpIdentity": "gcp.identity",
    "GcpLogs": "gcp.logs",
    "GcpMonitoring": "gcp.monitoring.monitoring",
    "GcpNetwork": "gcp.network",
    "GcpReconciler": "services.pubsub.reconciler",
    "GcpRegistry": "gcp.registry",
    "GcpSender": "gcp.sending.sender",
    "GcpShared": "gcp.shared",
    "GcpStore": "gcp.store",
    "GcpWorkerPool": "services.pubsub.worker_pool",
    "Pipeline": "pipeline",
    "Protection": "protection",
}
"""Components and the modules that have them and their arguments. All other names are of `config`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{MODULES.get(name.removesuffix('Args'), 'config')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
