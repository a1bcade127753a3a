"""Hosts to which a machine's own login is shown: a submitter has written the ARN that they follow from."""

import pytest

from tidemill.errors import CallerError
from tidemill.worker.channels import regional
from tidemill.worker.secret_readers import SecretsManager

LOGIN = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}


@pytest.mark.parametrize(
    ("arn", "url"),
    [
        ("arn:aws:sns:us-west-2:123456789012:ends", "https://sns.us-west-2.amazonaws.com/"),
        ("arn:aws-cn:sns:cn-north-1:123456789012:ends", "https://sns.cn-north-1.amazonaws.com.cn/"),
        ("arn:aws-us-gov:sns:us-gov-west-1:123456789012:ends", "https://sns.us-gov-west-1.amazonaws.com/"),
    ],
)
def test_the_host_is_the_services_own(arn, url):
    assert regional(arn, "sns", None)[1] == url


def test_an_endpoint_takes_its_place():
    assert regional("arn:aws:sns:us-west-2:123456789012:a", "sns", "http://127.0.0.1:1") == (
        "us-west-2",
        "http://127.0.0.1:1/",
    )


@pytest.mark.parametrize("region", ["stranger.example/?", "us-west-2@stranger.example", "stranger.example#", "x\n", ""])
def test_nothing_is_signed_for_a_strangers_host(region, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("it calls"))
    with pytest.raises(CallerError, match="cannot be read"):
        SecretsManager(LOGIN).read(f"arn:aws:secretsmanager:{region}:123456789012:secret:x")
    with pytest.raises(ValueError, match="no ARN of sns"):
        regional(f"arn:aws:sns:{region}:123456789012:ends", "sns", None)
