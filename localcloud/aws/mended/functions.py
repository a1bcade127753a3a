"""What moto's Lambda lacks and our stacks need: where a function logs, and changes of how its image is started."""

from __future__ import annotations

from typing import Any

from moto.awslambda.models import ImageConfig, LambdaFunction

from localcloud.aws.mended.method import method

_init = LambdaFunction.__init__
_configuration = LambdaFunction.get_configuration
_update = LambdaFunction.update_configuration


@method(LambdaFunction, "__init__")
def _made(self: Any, account_id: str, spec: dict[str, Any], region: str, version: int = 1) -> None:
    _init(self, account_id, spec, region, version)
    self.localcloud_logging = spec.get("LoggingConfig")


@method(LambdaFunction, "get_configuration")
def _with_logging(self: Any, on_create: bool = False) -> dict[str, Any]:
    known = self.localcloud_logging or {}
    logging = {"LogFormat": "Text", "LogGroup": f"/aws/lambda/{self.function_name}", **known}
    return _configuration(self, on_create) | {"LoggingConfig": logging}


@method(LambdaFunction, "update_configuration")
def _updated(self: Any, config_updates: dict[str, Any]) -> dict[str, Any]:
    if "LoggingConfig" in config_updates:
        self.localcloud_logging = config_updates["LoggingConfig"]
    if "ImageConfig" in config_updates:
        self.image_config = ImageConfig(config_updates["ImageConfig"])
    return _update(self, config_updates)
