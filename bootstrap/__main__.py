"""The stack of an AWS account or a Google Cloud project: run ``pulumi up`` here once per account or project."""

import sys
from importlib import import_module
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components.config import ConfigError
from components.rooms import CLOUDS, DEFAULT

config = pulumi.Config()
cloud = config.get("cloud")
try:
    # Imported late: an environment for one cloud has no other's SDK.
    program = import_module(f"bootstrap.{cloud if cloud in CLOUDS else DEFAULT}")
    home = program.make(config, config.get_object("ci") or {}, purge=config.get_bool("purge") or False)
except (ConfigError, TypeError) as error:
    raise pulumi.RunError(f"tidemill-bootstrap: {error}") from None
pulumi.export("backend_url", home.backend_url)
pulumi.export("secrets_provider", home.secrets_provider)
