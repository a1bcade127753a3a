"""The daemon: one process with moto, the gateway and Batch, on 127.0.0.1."""

from __future__ import annotations

import argparse
import os
import re
import socket
import threading
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from localcloud import daemon
from localcloud.aws import accounts, authorize, capacity, ec2_actions, efs, public
from localcloud.aws.batch import BatchApi, BatchWsgi, Host, Settings
from localcloud.aws.ecr import LAYERS, Ecr
from localcloud.aws.functions.functions import LambdaFunctions
from localcloud.aws.functions.schedules import Schedules
from localcloud.aws.gateway import Gateway
from localcloud.aws.mended import budgets, firehose, functions, gaps, insights, log_indexes, quotas, saved_queries  # noqa: F401
from localcloud.aws.s3_faults import S3Faults
from localcloud.aws.wsgi import serve_socket

STOP_SECONDS = 2.5


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the daemon's options: its place, and each setting of Batch under its own name."""
    parser = argparse.ArgumentParser(prog="python -m localcloud.aws.serve", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder of credentials, machines and logs")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    texts = dict(re.findall(r"^        (\w+): (.+(?:\n            .+)*)", Settings.__doc__ or "", re.MULTILINE))
    for setting in fields(Settings):
        if setting.default is not MISSING:
            kind = _KINDS[str(setting.type)]
            text = " ".join(texts.get(setting.name, "").split()).replace("%", "%%")
            option = f"--{setting.name.replace('_', '-')}"
            parser.add_argument(option, type=kind, default=setting.default, help=f"{text} ({setting.default})")
    return parser.parse_args(argv)


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(Path(part) for part in text.split(os.pathsep) if part)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


_KINDS: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": daemon.yes,
    "Sequence[str]": _names,
    "tuple[Path, ...]": _paths,
}


class AwsDaemon:
    """All parts of one emulated cloud, while it is served.

    Args:
        options: The result of ``parse``.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        state: Path = options.state.resolve()
        state.mkdir(parents=True, exist_ok=True)
        gaps.remember()
        accounts.create_deployer(state / "credentials.json")
        services: dict[str, Any] = {}
        control: dict[str, Any] = {"calls": authorize.calls, "denied": authorize.denied}
        tags: dict[str, Any] = {}
        unsigned: dict[str, Any] = {}
        gateway = Gateway(services, control, tags, unsigned)
        # Programs on a machine reach AWS, but none of the controls.
        within = Gateway(services, {}, tags, unsigned)
        with socket.create_server(("127.0.0.1", options.port), backlog=512) as listening:
            self.port = listening.getsockname()[1]
            given = {name: value for name, value in vars(options).items() if name not in {"state", "port"}}
            self.batch = BatchApi(Settings(state, self.port, **given), Host(within, authorize.may))
            faults = S3Faults(accounts.moto)
            url = f"http://127.0.0.1:{self.port}"
            ecr = Ecr(self.batch.registry, accounts.moto, url)
            self.functions = LambdaFunctions(self.batch.registry, url, state / "functions")
            self.schedules = Schedules(self.functions)
            services |= {"s3": faults, "batch": BatchWsgi(self.batch), "ecr": ecr, "lambda": self.functions}
            unsigned[LAYERS] = ecr.layers
            tags |= {"batch": self.batch.tags, "ec2": ec2_actions.tags, "kms": accounts.key_tags}
            tags["elasticfilesystem"] = efs.tags
            control |= {f"batch/{name}": action for name, action in self.batch.control.items()}
            control |= {
                "faults": faults.control,
                "capacity": capacity.faults.control,
                "health": lambda _: {"status": "ok", **self.batch.health()},
            }
            control |= self.schedules.controls
            control["foreign"] = public.disown
            control["credentials"] = lambda wanted: accounts.role_credentials(wanted["role"], "localcloud")
            self._served = serve_socket(listening, gateway)

    def stop(self) -> None:
        """End children and machines, then the socket. This takes bounded time, whatever hangs."""
        ending = threading.Thread(target=self.batch.stop, daemon=True)
        ending.start()
        self.schedules.stop()
        self.functions.stop()
        ending.join(STOP_SECONDS)
        self._served.close()


def main(argv: list[str] | None = None) -> None:
    daemon.serve(AwsDaemon, parse(argv))


if __name__ == "__main__":
    main()
