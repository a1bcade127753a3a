"""Two runs of a program under the mocks, compared by localcloud's table: the preview of an edit without the engine.

The rows' rules of what replaces a resource are those that the engine's previews on localcloud follow, and the policy
pack judges the second run. Not simulated: values that become unknown because what they come from is new or replaced,
and changes that such values cause. tests/engine/test_review.py compares with the engine.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import runpy
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.overrides import merged
from localcloud.aws.provider.clients import GLOBAL
from localcloud.aws.provider.table import AWS
from localcloud.gcp.provider.kind import GCP
from localcloud.provider import plan
from localcloud.provider.table import Row
from ops.project import HOMES
from policy.rules import POLICIES
from tests.components.recording import ACCOUNT, Made, Recorder, run_with
from tests.components.stacks import ROOT, run_program
from tests.components.test_shared import ON_AWS
from tests.policy.judging import judge, resources_of

_SEVERITIES = {policy.name: policy.severity.value if policy.severity else None for policy in POLICIES}
_OWN_NAMES = {"aws:batch/computeEnvironment:ComputeEnvironment": "compute-environment",
              "aws:batch/jobQueue:JobQueue": "job-queue"}  # fmt: skip
PROTECTION = "tidemill:index:Protection"
AMI = {"state": "available", "platform": "", "architecture": "x86_64", "rootDeviceName": "/dev/xvda",
       "blockDeviceMappings": []}  # fmt: skip
Config = dict[str, Any]


def _shared() -> dict[str, dict[str, Any]]:
    """Outputs of the shared stacks that edits name."""
    names = ("tidemill-shared/prod", "tidemill-shared/dev", "other-team/prod")
    return {f"organization/{name}": {"shared": {**ON_AWS, "vpc_id": f"vpc-{number}", "subnet_ids": [f"subnet-{number}"],
                                                "registry_url": f"{ON_AWS['registry_url']}-{number}"}}
            for number, name in enumerate(names)}  # fmt: skip


@dataclass
class _Cloud(Recorder):
    """The mocks' cloud with the ARNs of Batch, by which a queue names its environments."""

    overrides: Config = field(default_factory=dict)
    stacks: dict[str, dict[str, Any]] = field(default_factory=_shared)
    images: dict[str, dict[str, Any] | str] = field(default_factory=lambda: {"ami-0123456789abcdef0": AMI})
    subnets: dict[str, str] = field(
        default_factory=lambda: {"subnet-0123456789abcdef0": "us-west-2a", "subnet-0fedcba9876543210": "us-west-2b"}
    )

    def new_resource(self, args: Any) -> tuple[str, dict[str, Any]]:
        found, outputs = super().new_resource(args)
        if kind := _OWN_NAMES.get(args.typ):
            outputs["arn"] = f"arn:aws:batch:us-west-2:{ACCOUNT}:{kind}/{outputs['name']}"
        # A changed template is another version, so its fleet changes too.
        inputs = merged(args.inputs, self.overrides.get(args.name, {}))
        outputs["latestVersion"] = int(hashlib.sha256(repr(inputs).encode()).hexdigest()[:6], 16)
        return found, outputs

    def call(self, args: Any) -> Any:
        if args.token.endswith("getJobQueue"):
            return {"name": args.args["name"], "schedulingPolicyArn": "arn:aws:batch:us-west-2:1:scheduling-policy/old"}
        return super().call(args)


@dataclass(frozen=True)
class State:
    """A resource before or after."""

    made: Made
    inputs: dict[str, Any]


def document(
    stack: str, before: Config | None, after: Config, sources: Sequence[tuple[str, str, str]] = (), home: str = ""
) -> dict[str, Any]:
    """The preview document of an edit.

    Args:
        home: The folder of the program, `bootstrap` or `shared`; empty for that of teams' stacks.
        before: The stack file's `config` before, by full keys; None for a new stack.
        after: And after.
        sources: Path of a Python file, a part of its text, and what stands there after the edit.
    """
    project = f"tidemill-{home}" if home else "tidemill"
    cloud = after.get(f"{project}:cloud", "aws")
    old = _before(json.dumps(before, default=str), home) if before else {}
    if home:
        after = {**after, "tidemill:environment": HOMES[home].policies}
    errors, code, policies = [], 0, []
    try:
        with edited(sources):
            recorder = _run(after, home)
    except Exception as error:  # what a program raises ends the engine's preview
        return _document(stack, after, cloud, None, [], _chain(error), 1)
    new = _states(recorder, after)
    for found in judge(resources_of(recorder), after):
        policies.append({"rule": found.rule, "level": found.level, "severity": _SEVERITIES[found.rule],
                         "urn": found.urn, "message": found.message})  # fmt: skip
        code |= found.level in ("mandatory", "remediate")
    old = dict(old)
    for urn, state in new.items():
        for former in _former(urn, state):
            if former in old and urn not in old:
                old[urn] = old.pop(former)
    steps = [_step(urn, old.get(urn), new.get(urn)) for urn in sorted({*old, *new})]
    found = _document(stack, after, cloud, steps, policies, errors, code)
    found["config"] = {key.removeprefix("tidemill:"): each for key, each in after.items()}
    found["base"] = {"ref": "main", "commit": "main", "config": before or {}}
    return json.loads(
        json.dumps(found, default=str).replace("urn:pulumi:test::tidemill::", f"urn:pulumi:{stack}::{project}::")
    )


def _run(config: Config, home: str) -> Recorder:
    """The resources of a program with a config."""
    cloud = _Cloud(overrides=config.get("tidemill:overrides") or {})
    if not home:
        return run_program(config, recorder=cloud)
    given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    program = functools.partial(runpy.run_path, str(ROOT / home / "__main__.py"), run_name="__main__")
    return run_with(cloud, program, config=given)


def _chain(error: BaseException | None) -> list[str]:
    """An error and what it came from."""
    return [str(error), *_chain(error.__cause__ or error.__context__)] if error else []


def _document(  # noqa: PLR0917
    stack: str, config: Config, cloud: str, steps: list | None, policies: list, errors: list[str], code: int
) -> dict[str, Any]:
    preview = None if steps is None else {"steps": steps, "diagnostics": []}
    return {
        "version": 1, "stack": stack, "cloud": cloud, "region": config.get(f"{cloud}:region"),
        "environment": config["tidemill:environment"], "config": {}, "preview": preview, "policies": policies,
        "waivers": config.get("tidemill:waivers") or [], "overrides": config.get("tidemill:overrides") or {},
        "errors": errors, "exit_code": code,
    }  # fmt: skip


@functools.cache
def _before(config: str, home: str) -> dict[str, State]:
    values = json.loads(config)
    return _states(_run(values, home), values)


def _states(recorder: Recorder, config: Config) -> dict[str, State]:
    """Custom resources by URN, each also by the name that it had; with the provider's defaults in their inputs."""
    states = {}
    for made in recorder.resources:
        _override(made, config.get("tidemill:overrides") or {})
        if (row := _row(made.type)) is None:
            if made.type == PROTECTION:
                states[made.urn] = State(made, {})
            continue
        states[made.urn] = State(made, {**_placed(row, config), **_checked(row, made, config)})
    return states


def _override(made: Made, overrides: Config) -> None:
    """Merge overrides as the program's transformation does, which the mocks do not run."""
    for name, properties in overrides.items():
        if name in (made.name, f"{made.kind.rpartition('.')[2]}/{made.name}"):
            made.inputs = merged(made.inputs, properties)


def _placed(row: Row, config: Config) -> dict[str, Any]:
    """Values that a resource takes from the provider's settings; a change creates it in the new place."""
    if row.kind is AWS:
        return {} if row.service in GLOBAL else {"region": config.get("aws:region", "us-west-2")}
    return {key: config[f"gcp:{key}"] for key in ("project", "region") if f"{{{key}}}" in row.at}


def _former(urn: str, state: State) -> list[str]:
    """The URNs of a resource's aliases."""
    place = urn.rpartition("::")[0]
    return [f"{place.removesuffix(state.made.type)}{kind}::{name}" for kind, name in state.made.options["aliases"]]


def _row(token: str) -> Row | None:
    kind = AWS if token.startswith("aws:") else GCP if token.startswith("gcp:") else None
    return kind.row(token) if kind else None


def _checked(row: Row, made: Made, config: Config) -> dict[str, Any]:
    name = {row.autoname["property"]: f"{made.name}-1a2b3c4"} if row.autoname else {}
    inputs = {**row.defaults, **name, **{key: value for key, value in made.inputs.items() if value is not None}}
    if row.taggable:
        own, every = row.kind.tags
        inputs[every] = plan.merged_tags(inputs.get(own), _default_tags(config))
    return {key: _told(value) for key, value in inputs.items()}


def _told(value: Any) -> Any:
    """A value as data: an archive, such as a function's source, by a digest of its files."""
    if isinstance(value, pulumi.AssetArchive | pulumi.FileAsset | pulumi.StringAsset):
        parts = value.assets if isinstance(value, pulumi.AssetArchive) else vars(value)
        return hashlib.sha256(repr({key: _told(each) for key, each in sorted(parts.items())}).encode()).hexdigest()
    if isinstance(value, dict):
        return {key: _told(each) for key, each in value.items()}
    return [_told(each) for each in value] if isinstance(value, list) else value


def _default_tags(config: Config) -> dict[str, str]:
    return {**(config.get("aws:defaultTags") or {}).get("tags", {}), **(config.get("gcp:defaultLabels") or {})}


def _step(urn: str, old: State | None, new: State | None) -> dict[str, Any]:
    step: dict[str, Any] = {
        "urn": urn,
        **{key: _side(each) for key, each in (("oldState", old), ("newState", new)) if each},
    }
    if old is None or new is None:
        made = new and ("import" if new.made.options["import"] else "create")
        return {**step, "op": made or "delete"}
    row = _row(new.made.type)
    if row is None:
        return {**step, "op": "same"}
    changes = plan.diff(row, old.inputs, new.inputs, new.made.options["ignore_changes"])
    changes |= {key: ("update", True) for key in ("region", "project") if old.inputs.get(key) != new.inputs.get(key)}
    replacing = [path for path, (_, replaces) in changes.items() if replaces]
    diff = {path: {"kind": kind + ("-replace" if replaces else "")} for path, (kind, replaces) in changes.items()}
    return {**step, "op": "replace" if replacing else "update" if changes else "same", "detailedDiff": diff,
            "replaceReasons": replacing}  # fmt: skip


def _side(state: State) -> dict[str, Any]:
    options = state.made.options
    return {"inputs": state.inputs, "protect": bool(options["protect"]), "retainOnDelete": bool(options["retain"]),
            "propertyDependencies": options["property_dependencies"]}  # fmt: skip


@contextlib.contextmanager
def edited(sources: Sequence[tuple[str, str, str]]) -> Iterator[None]:
    """Run with other texts of modules: functions and methods get the code of the edited file.

    Raises:
        ValueError: The text is not in the file, or the edit adds a function or a class.
    """
    undo: list[tuple[Any, str, Any]] = []
    try:
        texts: dict[str, str] = {}
        for path, old, new in sources:
            text = texts.get(path) or (ROOT / path).read_text()
            if old not in text:
                raise ValueError(f"{path} has no {old!r}: correct the edit")
            texts[path] = text.replace(old, new)
        for path, text in texts.items():
            name = path.removesuffix(".py").replace("/", ".")
            module = importlib.import_module(name)
            scratch = types.ModuleType(name)
            scratch.__dict__.update({"__package__": module.__package__, "__file__": module.__file__})
            exec(compile(text, path, "exec"), scratch.__dict__)
            _take(vars(module), vars(scratch), module, undo)
        yield
    finally:
        for target, key, value in reversed(undo):
            setattr(target, key, value)


def _take(old: Mapping[str, Any], new: Mapping[str, Any], owner: Any, undo: list[tuple[Any, str, Any]]) -> None:
    for key, value in list(new.items()):
        if key.startswith("__") and key != "__init__":
            continue
        present = old.get(key)
        if isinstance(value, types.FunctionType) and isinstance(present, types.FunctionType):
            undo.append((present, "__code__", present.__code__))
            present.__code__ = value.__code__
        elif isinstance(value, property) and isinstance(present, property):
            _take({key: present.fget}, {key: value.fget}, owner, undo)
        elif isinstance(value, type) and value.__module__ == getattr(present, "__module__", None):
            _take(vars(present), vars(value), present, undo)
        elif (
            isinstance(value, tuple | frozenset | list | str | int | dict) and present != value and present is not None
        ):
            # Other modules may have imported it by its name.
            ours = [each for name, each in [*sys.modules.items()] if name.startswith(("components.", "tidemill."))]
            for holder in [owner, *(each for each in ours if vars(each).get(key) is present and each is not owner)]:
                undo.append((holder, key, present))
                setattr(holder, key, value)
