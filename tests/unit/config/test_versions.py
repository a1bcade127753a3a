"""The versions of clouds' SDKs that the components take."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from components import versions
from components.config import ConfigError

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("found", ["6.83.4", "7.29.0", "8.0.0a1", "8.1.0"])
def test_another_version_is_refused_in_one_line(monkeypatch, found):
    monkeypatch.setattr(versions, "version", lambda package: found)
    with pytest.raises(ConfigError) as error:
        versions.check_sdk("pulumi-aws", "7.30", "8")
    assert str(error.value).startswith(f"pulumi-aws: {found} is not allowed. Allowed: 7.30 or later, ")
    assert "pip install 'pulumi-aws>=7.30,<8'" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("found", ["7.30.0", "7.30", "7.51.1", "7.100.0+local"])
def test_a_version_within_the_range_is_taken(monkeypatch, found):
    monkeypatch.setattr(versions, "version", lambda package: found)
    versions.check_sdk("pulumi-aws", "7.30", "8")


def test_a_missing_sdk_is_left_to_its_import():
    versions.check_sdk("pulumi-of-no-cloud", "1", "2")


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_each_cloud_checks_the_range_of_the_wheel(monkeypatch, cloud):
    asked = []
    monkeypatch.setattr(versions, "check_sdk", lambda *given: asked.append(given))
    importlib.reload(importlib.import_module(f"components.{cloud}"))
    package, least, below = asked[-1]
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert f"{package}>={least},<{below}" in groups[cloud]
