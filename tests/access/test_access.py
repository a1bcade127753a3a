"""The rights of each identity on another team, another environment, the state and the account.

The components produce the documents and bindings, and localcloud's evaluators decide. Only the clouds can show what
they decide themselves.
"""

import ast

import pytest

from tests.access import aws, google, reference
from tests.access.edges import EDGES
from tests.access.probes import Probe

PROBES = [(cloud, probe) for cloud in (aws, google) for probe in cloud.PROBES]


def called(value: object) -> str:
    return f"{value.who} {value.action} {value.on.text}" if isinstance(value, Probe) else value.__name__.split(".")[-1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("cloud", "probe"), PROBES, ids=called)
def test_an_identity_may_do_what_the_page_says(cloud, probe):
    assert cloud.allows(probe) is probe.may, probe.why


def test_every_identity_is_asked_what_it_may_and_what_it_may_not():
    assert len(PROBES) >= 220
    assert len({(cloud, probe.who, probe.action, probe.on.text) for cloud, probe in PROBES}) == len(PROBES)
    for cloud in (aws, google):
        answers = {(probe.who, probe.may) for probe in cloud.PROBES}
        assert answers == {(who, may) for who in cloud.IDENTITIES for may in (True, False)}


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.what)
def test_every_edge_names_a_test(edge):
    path, _, name = edge.test.partition("::")
    source = (reference.PAGE.parents[1] / "tests" / path).read_text(encoding="utf-8")
    assert name in {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}


def test_the_page_is_fresh():
    assert reference.PAGE.read_text(encoding="utf-8") == reference.text(), "run: python -m tests.access"
