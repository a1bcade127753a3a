"""Every component's docstring says what the platform team must know, and its example runs exactly as written."""

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pulumi
import pytest
from pulumi.provider.experimental.analyzer import Analyzer

import components
from components.base import as_args
from tests.components.recording import run


def modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages(components.__path__, "components."):
        yield importlib.import_module(info.name)


def own_classes() -> list[type]:
    found = [
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    return sorted(set(found), key=lambda kind: kind.__name__)


COMPONENTS: list[Any] = [kind for kind in own_classes() if issubclass(kind, pulumi.ComponentResource)]
NAMESPACE = {name: value for module in modules() for name, value in vars(module).items()} | {"pulumi": pulumi}


def example(kind: type) -> str:
    found = re.search(r"```python\n(.*?)```", kind.__doc__ or "", re.DOTALL)
    assert found, f"{kind.__name__} has no example"
    return textwrap.dedent(found[1])


def test_the_components_are_these():
    assert [kind.__name__ for kind in COMPONENTS] == [
        "AwsArrivals",
        "AwsBatchQueue",
        "AwsBootstrap",
        "AwsBudget",
        "AwsCi",
        "AwsFileSystem",
        "AwsIdentity",
        "AwsLogs",
        "AwsMonitoring",
        "AwsNetwork",
        "AwsRegistry",
        "AwsSender",
        "AwsShared",
        "AwsStore",
        "GcpArrivals",
        "GcpBootstrap",
        "GcpBudget",
        "GcpCi",
        "GcpFileSystem",
        "GcpIdentity",
        "GcpLogs",
        "GcpMonitoring",
        "GcpNetwork",
        "GcpReconciler",
        "GcpRegistry",
        "GcpSender",
        "GcpShared",
        "GcpStore",
        "GcpWorkerPool",
        "Pipeline",
        "Protection",
    ]


@pytest.mark.parametrize("kind", COMPONENTS)
def test_a_component_says_its_parts_its_idle_cost_and_an_example(kind: type):
    text = inspect.getdoc(kind) or ""
    assert "Makes: " in text
    assert "Costs while idle: " in text
    assert "Example:" in text


@pytest.mark.parametrize("kind", COMPONENTS)
def test_its_example_runs_and_makes_it(kind: type, monkeypatch: pytest.MonkeyPatch):
    exported: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    recorder = run(lambda: exec(example(kind), dict(NAMESPACE)))
    if kind.__name__ != "AwsIdentity":
        assert exported
    assert recorder.of(kind.__name__)


@pytest.mark.parametrize("kind", COMPONENTS)
def test_it_can_be_served_to_other_languages(kind: Any):
    """The component analyzer reads the arguments; Literal and postponed annotations would stop it."""
    definition = Analyzer("tidemill").analyze([kind])["component_definitions"][kind.__name__]
    args = inspect.signature(kind.__init__).parameters
    assert list(args) == ["self", "name", "args", "opts"]
    assert len(definition.inputs) == len(fields(args["args"].annotation))


@pytest.mark.parametrize("kind", COMPONENTS)
def test_every_argument_and_output_is_documented(kind: Any):
    definition = Analyzer("tidemill").analyze([kind])["component_definitions"][kind.__name__]
    for name, described in {**definition.inputs, **definition.outputs}.items():
        assert described.description, f"{kind.__name__}.{name}"


def test_modules_and_methods_of_components_have_docstrings():
    methods = [(kind, name) for kind in COMPONENTS for name in vars(kind) if not name.startswith("_")]
    assert [module.__name__ for module in modules() if not module.__doc__] == []
    assert [f"{kind.__name__}.{name}" for kind, name in methods if not getattr(kind, name).__doc__] == []


def test_arguments_may_be_a_mapping_and_unknown_ones_are_named():
    kind = inspect.signature(NAMESPACE["AwsStore"].__init__).parameters["args"].annotation
    assert as_args(kind, {"versioning": True}).versioning is True
    with pytest.raises(
        TypeError, match="AwsStoreArgs has no versions; it has expire_jobs_after_days, expire_state_after_days, kms_key"
    ):
        as_args(kind, {"versions": True})
    with pytest.raises(TypeError, match="AwsStoreArgs or a mapping, not list"):
        as_args(kind, [])
