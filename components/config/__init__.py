"""A stack's config: pydantic models of its keys, the rules between them, and one clear error for the first mistake."""

from .checks import repository_of, shared_repository_of
from .errors import ConfigError
from .file_system_models import FileSystem
from .load import from_file, from_pulumi, parse, part
from .models import Budget, Logs, Registry, StackConfig, Store
from .monitoring_models import Monitoring
from .mount_models import Mount
from .network_models import NewNetwork
from .queue_models import Queue, Rung

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
