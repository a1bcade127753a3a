"""The stack of an AWS account or a Google Cloud project: run ``pulumi up`` here once per account or project."""

import sys
from importlib import import_module
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components.config import ConfigError
from components.config.bootstrap_models import PROJECT

try:
    config = PROJECT.from_program()
    # Imported late: an environment for one cloud has no other's SDK.
    home = import_module(f"bootstrap.{config.cloud}").make(config)
except ConfigError as error:
    raise pulumi.RunError(str(error)) from None
pulumi.export("backend_url", home.backend_url)
pulumi.export("secrets_provider", home.secrets_provider)
