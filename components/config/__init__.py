"""A stack's config: pydantic models of its keys, the rules between them, and one clear error for the first mistake."""

from components.config.checks import repository_of, shared_repository_of
from components.config.errors import ConfigError
from components.config.file_system_models import FileSystem
from components.config.load import from_file, from_pulumi, parse, part
from components.config.models import Budget, Logs, Registry, StackConfig, Store
from components.config.monitoring_models import Monitoring
from components.config.mount_models import Mount
from components.config.network_models import NewNetwork
from components.config.queue_models import Queue, Rung

__all__ = [
    "Budget",
    "ConfigError",
    "FileSystem",
    "Logs",
    "Monitoring",
    "Mount",
    "NewNetwork",
    "Queue",
    "Registry",
    "Rung",
    "StackConfig",
    "Store",
    "from_file",
    "from_pulumi",
    "parse",
    "part",
    "repository_of",
    "shared_repository_of",
]
