"""A stack's config: pydantic models of its keys, the rules between them, and one clear error for the first mistake."""

from .checks import repository_of, shared_repository_of
from .errors import ConfigError
from .file_system_models import FileSystem
from .import_models import Imports, QueueImport
from .load import FileSystemKeys, QueueKeys, StackKeys, from_file, from_pulumi, parse, part
from .models import Access, Budget, Data, Logs, StackConfig, Store
from .monitoring_models import Monitoring
from .mount_models import Mount
from .network_models import ExistingNetwork, Network, NewNetwork
from .queue_models import AwsQueueOptions, CpuRange, GcpQueueOptions, Item, Machines, Queue, Rung
from .registry_models import Registry
from .schedule_models import Arrival, Schedule
from .waiver_models import Waiver

__all__ = [
    "Access",
    "Arrival",
    "AwsQueueOptions",
    "Budget",
    "ConfigError",
    "CpuRange",
    "Data",
    "ExistingNetwork",
    "FileSystem",
    "FileSystemKeys",
    "GcpQueueOptions",
    "Imports",
    "Item",
    "Logs",
    "Machines",
    "Monitoring",
    "Mount",
    "Network",
    "NewNetwork",
    "Queue",
    "QueueImport",
    "QueueKeys",
    "Registry",
    "Rung",
    "Schedule",
    "StackConfig",
    "StackKeys",
    "Store",
    "Waiver",
    "from_file",
    "from_pulumi",
    "parse",
    "part",
    "repository_of",
    "shared_repository_of",
]
