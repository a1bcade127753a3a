"""A proxy and certificates in what a stack plans: machines, containers, and what goes past the proxy. Recording mocks
prove what is asked for; that clients heed it is proved in tests/worker/test_proxy.py."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from components.services.batch.user_data import BUNDLE
from localcloud.gcp.compute import cloud_init
from tests.components.recording import Recorder
from tests.components.stacks import IMAGE, run_stack
from tests.tls_server import Authority

PROXY = "http://proxy.example.com:3128"
PEM = Authority().pem
S3 = ["s3.us-west-2.amazonaws.com", "s3.dualstack.us-west-2.amazonaws.com"]
ALWAYS = ["localhost", "127.0.0.1", "169.254.169.254"]
EXISTING = {"existing": {"vpc_id": "vpc-12345678", "subnet_ids": ["subnet-12345678"]}}


def on_aws(**changes: Any) -> Recorder:
    return run_stack("vision-dev", **{"proxy": {"url": PROXY}, "certificates": PEM, **changes})


def container(made: Recorder) -> dict[str, str]:
    properties = made.of("batch.JobDefinition")[0].document("containerProperties")
    return {each["name"]: each["value"] for each in properties["environment"]}


def script(made: Recorder) -> str:
    return base64.b64decode(made.of("ec2.LaunchTemplate")[0].inputs["userData"]).decode()


@pytest.mark.parametrize(
    ("network", "past"),
    [
        ({}, S3),
        ({"create": {"egress": "nat"}}, S3),
        ({"create": {"egress": "endpoints"}}, ["us-west-2.amazonaws.com"]),
        (EXISTING, []),
    ],
    ids=["default", "nat", "endpoints", "existing"],
)
def test_endpoints_and_metadata_go_past_the_proxy(network: dict[str, Any], past: list[str]):
    made = on_aws(network=network, proxy={"url": PROXY, "no_proxy": ["example.com"]})
    told = ",".join([*ALWAYS, "169.254.170.2", *past, "example.com"])
    assert {name: container(made)[name] for name in ("HTTPS_PROXY", "http_proxy")} == {
        "HTTPS_PROXY": PROXY,
        "http_proxy": PROXY,
    }
    assert container(made)["NO_PROXY"] == container(made)["no_proxy"] == told
    assert f"\nno_proxy={told},/var/run/docker.sock\n" in script(made)


def test_a_machine_of_aws_trusts_and_asks_the_proxy_before_its_agent_joins():
    text = script(on_aws())
    assert f"cat > /etc/pki/ca-trust/source/anchors/tidemill.pem <<'EOF'\n{PEM}EOF\nupdate-ca-trust" in text
    docker = text.index("systemctl try-restart docker.service")
    assert text.index("update-ca-trust") < docker < text.index("systemctl enable --now tidemill-host.service")
    assert text.index("cat /etc/tidemill/proxy >> /etc/ecs/ecs.config") < docker
    assert "\nEnvironmentFile=/etc/tidemill/proxy\nExecStart=" in text
    assert f"cp /etc/pki/tls/certs/ca-bundle.crt /var/lib/tidemill/worker/{BUNDLE}" in text
    assert container(on_aws())["SSL_CERT_FILE"] == container(on_aws())["AWS_CA_BUNDLE"] == f"/tidemill/{BUNDLE}"


def test_mountpoint_knows_no_exceptions_so_it_gets_no_proxy():
    queue = {"cpu": {"images": {"default": IMAGE}, "mounts": {"m": {"s3": "s3://refs", "path": "/mnt/m"}}}}
    text = script(on_aws(queues=queue, data={"read": ["s3://refs"]}))
    assert "\nenv -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy mount-s3 " in text


def test_a_stack_without_them_is_what_it_was():
    made = run_stack("vision-dev")
    assert not [name for name in container(made) if "PROXY" in name.upper() or "BUNDLE" in name or "CERT" in name]
    assert "docker.service" not in script(made)


def on_gcp(**changes: Any) -> cloud_init.CloudConfig:
    made = run_stack("vision-gcp-dev", **changes)
    return cloud_init.parse(made.of("compute.RegionInstanceTemplate")[0].inputs["metadata"]["user-data"])


def test_a_machine_of_gcp_restarts_docker_before_it_pulls():
    proxy = {"url": PROXY, "no_proxy": ["example.com"]}
    files = {each.path: each.content.decode() for each in on_gcp(proxy=proxy, certificates=PEM).files}
    google = ["metadata.google.internal", "googleapis.com", "pkg.dev", "gcr.io"]
    told = ",".join([*ALWAYS, *google, "example.com"])
    assert f'Environment="NO_PROXY={told}"\n' in files["/etc/systemd/system/docker.service.d/tidemill.conf"]
    assert files["/etc/tidemill/certificates.pem"] == PEM
    env = dict(line.split("=", 1) for line in files["/etc/tidemill/env"].splitlines())
    assert (env["HTTPS_PROXY"], env["no_proxy"]) == (PROXY, told)
    assert env["REQUESTS_CA_BUNDLE"] == "/etc/tidemill/certificates.pem"
    settings = files["/etc/tidemill/settings"]
    assert "--volume /var/lib/tidemill/trust:/etc/tidemill:ro" in settings
    (steps,) = [line for line in settings.splitlines() if line.startswith("STEPS=")]
    order = [steps.index(word) for word in ("folders", "/bin/bash /etc/tidemill/outbound.sh", "image")]
    assert order == sorted(order)


def test_a_machine_of_gcp_without_them_is_what_it_was():
    files = {each.path for each in on_gcp().files}
    assert files == {
        "/etc/systemd/system/tidemill.service",
        "/etc/tidemill/run.sh",
        "/etc/tidemill/settings",
        "/etc/tidemill/env",
    }
