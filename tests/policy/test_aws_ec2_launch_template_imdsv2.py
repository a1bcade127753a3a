"""The rule on made-up inputs. It cannot prove what a machine's metadata service answers."""

import pytest

from policy.rules.aws_ec2_launch_template_imdsv2 import violations


@pytest.mark.parametrize("options", [{"httpTokens": "required"}, {"httpEndpoint": "disabled"}])
def test_a_template_without_version_1_passes(resource, options):
    assert list(violations(resource({"metadataOptions": options}))) == []


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({}, "not set"),
        ({"metadataOptions": {}}, "not set"),
        ({"metadataOptions": {"httpTokens": "optional"}}, "optional"),
        ({"metadataOptions": {"httpEndpoint": "enabled", "httpPutResponseHopLimit": 1}}, "not set"),
    ],
)
def test_a_template_that_lets_version_1_answer_fails(resource, inputs, named):
    (message,) = violations(resource(inputs))
    assert f"httpTokens is {named}" in message
    assert 'http_tokens="required"' in message


@pytest.mark.parametrize("depth", ["whole", "value"])
def test_options_that_only_up_will_know_pass(resource, unknown, depth):
    inputs = {"metadataOptions": unknown if depth == "whole" else {"httpTokens": unknown}}
    assert list(violations(resource(inputs))) == []
