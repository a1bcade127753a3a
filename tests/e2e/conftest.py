"""One localcloud with the demo stack up, shared by the tests of this folder that leave it unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcloud.cloud import Cloud
from tests.e2e.team import ONCALL, Team, client, team_up
from tests.gate import Gate, gate


@pytest.fixture
def held() -> Iterator[Gate]:
    """A gate that is closed until the test opens it, or ends."""
    with gate() as made:
        yield made


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team whose pipeline is up. Its jobs may tell a topic."""
    # A worker has to leave in time on a busy machine, too. A machine goes as soon as its workers have left.
    with Cloud(tmp_path_factory.mktemp("localcloud"), reclaim_seconds=60) as cloud:
        client(cloud.env, "sns").create_topic(Name=ONCALL.rpartition(":")[2])
        access = {"submitters": ["arn:aws:iam::123456789012:root"], "advise": True}
        monitoring = {"job_channels": {"oncall": ONCALL}}
        settings = {"tidemill:access": access, "tidemill:monitoring": monitoring}
        yield team_up(cloud, tmp_path_factory.mktemp("demo-aws"), settings=settings)
