"""The environment of programs written for SageMaker: variables, and the same folders under other names.

The names are those that Amazon's toolkit gives to programs in its containers
(https://github.com/aws/sagemaker-training-toolkit#environment-variables), and those that simple-sagemaker adds
(https://github.com/shiftan/simple_sagemaker#worker-environment). An item is always the first of one host.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.job import Item, JobSpec
from tidemill.placeholders import value_text

HOST = "algo-1"
_FIXED = {
    "SM_NETWORK_INTERFACE_NAME": "eth0",
    "SM_LOG_LEVEL": "20",
    "SSM_NUM_NODES": "1",
    "SSM_HOST_RANK": "0",
}


@dataclass(frozen=True)
class Folders:
    """Where an item's files are.

    Attributes:
        output: What is uploaded.
        config: A folder for the files that SageMaker writes.
        state: What survives the machine, or None.
        inputs: Named inputs.
    """

    output: Path
    config: Path
    state: str | None
    inputs: Mapping[str, str]

    @property
    def model(self) -> Path:
        return self.output / "model"

    @property
    def data(self) -> Path:
        return self.output / "data"


def prepare(spec: JobSpec, item: Item, folders: Folders) -> dict[str, str]:
    """Make the folders and the files of an attempt; returns its variables."""
    # SageMaker hands hyperparameters over as text.
    hps = {name: value_text(value) for name, value in (item.meta or {}).items()}
    resources = {"current_host": HOST, "hosts": [HOST], "network_interface_name": "eth0"}
    channels = {name: {"TrainingInputMode": "File"} for name in sorted(folders.inputs)}
    settings: dict[str, Any] = {
        "channels": sorted(folders.inputs),
        "current_host": HOST,
        "hosts": [HOST],
        "input_config_dir": str(folders.config),
        "input_data_config": channels,
        "model_dir": str(folders.model),
        "num_cpus": max(1, math.ceil(spec.resources.cpus)),
        "num_gpus": spec.resources.gpus,
        "output_data_dir": str(folders.data),
        "output_dir": str(folders.output),
        "resource_config": resources,
    }
    for folder in (folders.model, folders.data):
        folder.mkdir(parents=True)
    files = {"hyperparameters": hps, "inputdataconfig": channels, "resourceconfig": resources}
    for name, content in files.items():
        (folders.config / f"{name}.json").write_text(json.dumps(content))
    return _variables(f"{spec.job}-{item.index}", folders, settings, hps)


def _variables(name: str, folders: Folders, settings: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, str]:
    hps = {key: decoded(text) for key, text in texts.items()}
    arguments = [word for key in sorted(texts) for word in (f"--{key}" if len(key) > 1 else f"-{key}", texts[key])]
    training = {**settings, "channel_input_dirs": dict(folders.inputs), "hyperparameters": hps, "job_name": name}
    env = {f"SM_{key.upper()}": value_text(value) for key, value in settings.items()}
    more = {"SM_HPS": hps, "SM_USER_ARGS": arguments, "SM_TRAINING_ENV": training}
    env |= {key: value_text(value) for key, value in more.items()}
    for key, text in texts.items():
        # A shell cannot name a variable with a dash; the toolkit leaves it in.
        env |= {f"SM_HP_{key.upper()}": text, f"SM_HP_{key.upper().replace('-', '_')}": text}
    env |= {f"SM_CHANNEL_{key.upper()}": path for key, path in folders.inputs.items()}
    if folders.state is not None:
        env |= {"SSM_STATE": folders.state, "SSM_INSTANCE_STATE": folders.state}
    return env | _FIXED | {"TRAINING_JOB_NAME": name, "SAGEMAKER_JOB_NAME": name, "SSM_OUTPUT": str(folders.output)}


def decoded(text: str) -> Any:
    """A hyperparameter as SageMaker's toolkit reads it: text that is JSON, such as `1e-3` and `true`, as its value."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def _no_number(name: str) -> None:
    raise ValueError(name)
