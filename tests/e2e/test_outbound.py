"""Machines of a stack with a proxy and an authority of its own: they boot, and their jobs have both.

localcloud runs the boot scripts, whose Docker, agent and system certificates are doubles: what it cannot prove is that
real ones heed their settings. tests/worker/test_proxy.py has a real proxy, and clients that go through it.
"""

from __future__ import annotations

import json

import pytest

from localcloud.cloud import Cloud, GcpCloud
from tests.e2e.gcp import TIME_FACTOR, gcp_team_up
from tests.e2e.team import team_up
from tests.tls_server import Authority

PROXY = "http://proxy.example.com:3128"
SAYS = '{ echo "$HTTPS_PROXY $no_proxy"; cat "$SSL_CERT_FILE"; } > "$TIDEMILL_OUTPUT/said"'


@pytest.mark.namespaces  # the program names the certificates by their path
def test_a_job_on_aws_has_the_proxy_and_the_authority(tmp_path_factory: pytest.TempPathFactory) -> None:
    pem = Authority().pem
    changes = {"tidemill:proxy": {"url": PROXY, "no_proxy": ["example.com"]}, "tidemill:certificates": pem}
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        team = team_up(cloud, tmp_path_factory.mktemp("demo-aws"), settings=changes)
        job = json.loads(team.tidemill("submit", "--queue", "cpu", "--shell", "--json", "x", "--", SAYS))["job"]
        team.tidemill("wait", job)
        (result,) = team.results(job)
        first, _, rest = team.read(f"{result['output']}said").decode().partition("\n")
    url, past = first.split()
    assert url == PROXY
    assert {"169.254.170.2", "s3.us-west-2.amazonaws.com", "example.com"} < {*past.split(",")}
    assert pem in rest


@pytest.mark.namespaces
def test_a_job_on_gcp_has_the_proxy_and_the_authority(tmp_path_factory: pytest.TempPathFactory) -> None:
    pem = Authority().pem
    with GcpCloud(tmp_path_factory.mktemp("localcloud"), time_factor=TIME_FACTOR) as cloud:
        team = gcp_team_up(cloud, tmp_path_factory.mktemp("demo-gcp"))
        with team.project.config() as config:
            config["tidemill:proxy"] = {"url": PROXY, "no_proxy": ["example.com"]}
            config["tidemill:certificates"] = pem
        team.project.up().ok()
        job = json.loads(team.tidemill("submit", "--queue", "cpu", "--shell", "--json", "x", "--", SAYS))["job"]
        team.tidemill("wait", job)
        (result,) = team.results(job)
        first, _, rest = team.read(f"{result['output']}said").decode().partition("\n")
    url, past = first.split()
    assert url == PROXY
    assert {"metadata.google.internal", "googleapis.com", "example.com"} < {*past.split(",")}
    assert pem in rest
