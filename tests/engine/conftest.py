"""One localcloud per module, with its own state folder and a free port, so that modules run in parallel.

Tests of a module share a stack and depend on their order: run them with `--dist loadfile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.harness import Project


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """An empty AWS. Without an engine it does not start, and every test here fails with instructions."""
    with Cloud(tmp_path_factory.mktemp("localcloud")) as running:
        yield running


@pytest.fixture(scope="module")
def new_project(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Project]:
    """Make a copy of the project with one stack on the module's localcloud."""

    def make(stack: str, source: Path | None = None) -> Project:
        return Project(tmp_path_factory.mktemp(stack), cloud.env, stack, source)

    return make
