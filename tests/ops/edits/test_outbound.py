"""Proxies and authorities of machines in a review."""

import json

import pytest

from components.outbound import proxy_variables
from components.services.batch.user_data import Way, user_data
from tests.ops.review_steps import step, told
from tests.tls_server import Authority

TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
LAUNCH = "aws:ec2/launchTemplate:LaunchTemplate"
PROXY = "http://proxy.example.com:3128"
COMPANY = Authority(name="Example CA").pem


def booted(*, proxy="", past="", certificates=""):
    """Inputs of the templates of both clouds, with what a stack's proxy and certificates make of them."""
    way = Way(proxy or None, past, certificates or None)
    variables = proxy_variables(proxy, past) if proxy else {}
    files = [{"content": "".join(f"{key}={value}\n" for key, value in variables.items())}, {"content": certificates}]
    text = "#cloud-config\n" + json.dumps({"write_files": files})
    return {LAUNCH: {"userData": user_data({}, way=way)}, TEMPLATE: {"metadata": {"user-data": text}}}


@pytest.mark.parametrize("kind", [LAUNCH, TEMPLATE])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, {"proxy": PROXY}, [("medium", f"machines and jobs go through the proxy {PROXY}, were without")]),
        ({"proxy": PROXY}, {}, [("high", f"machines and jobs no longer go through the proxy {PROXY}")]),
        (
            {"proxy": PROXY, "past": "a.test,b.test"},
            {"proxy": PROXY, "past": "b.test,10.0.0.0/8"},
            [("medium", "goes past the proxy: 10.0.0.0/8"), ("medium", "goes through the proxy now: a.test")],
        ),
        ({"proxy": PROXY}, {"proxy": PROXY}, []),
        (
            {},
            {"certificates": COMPANY},
            [("high", "machines and jobs trust Example CA: whoever has its key can read and change their TLS traffic")],
        ),
        (
            {"certificates": COMPANY},
            {},
            [("medium", "machines and jobs no longer trust Example CA: what it signed is refused")],
        ),
    ],
)
def test_another_way_out_is_told(kind, old, new, said):
    op = "update" if kind == LAUNCH else "replace"
    changed = [
        step(op, kind, name, old=booted(**old)[kind], new=booted(**new)[kind], diff={"metadata": "update"})
        for name in ("a", "b")
    ]
    found = told(*changed, kind="network-opened")
    assert [(finding.severity, finding.title) for finding in found] == said
    assert all(finding.details == ("a", "b") for finding in found)


def test_a_boot_script_that_is_not_known_says_nothing():
    before, unknown = booted(proxy=PROXY)[LAUNCH], {"userData": UNKNOWN}
    assert told(step("update", LAUNCH, old=before, new=unknown), kind="network-opened") == []
