"""One localcloud with the demo stack up, shared by the tests of this folder that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.e2e.team import Team, team_up

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team whose pipeline is up."""
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        yield team_up(cloud, tmp_path_factory.mktemp("demo-aws"))
