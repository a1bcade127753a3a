"""The caller's own login, as the AWS CLI reads it. What this cannot prove: that a cloud accepts it."""

import sys

import pytest
from google.auth.credentials import AnonymousCredentials

from tests.unit.client_fakes import descriptor
from tidemill.client import Pipeline
from tidemill.client import site as site_module
from tidemill.clouds.gcp import session as gcp_session
from tidemill.errors import CallerError, CloudError, StoreDeniedError, StoreError
from tidemill.store import Store
from tidemill.store.errors import translated

PROFILES = {
    "keys": "aws_access_key_id = AKID\naws_secret_access_key = key\n",
    "a process": "credential_process = {process}\n",
}
PROCESS = """import json
print(json.dumps({"Version": 1, "AccessKeyId": "AKID", "SecretAccessKey": "key"}))
"""


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """Writes the profile `ada` and makes it the caller's; nothing else of the caller's AWS settings is left."""

    def write(settings: str) -> None:
        process = tmp_path / "process.py"
        process.write_text(PROCESS)
        config = tmp_path / "config"
        config.write_text(
            "[profile ada]\nregion = eu-north-1\n" + settings.format(process=f"{sys.executable} {process}")
        )
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
        ):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_PROFILE", "ada")

    return write


@pytest.mark.parametrize("settings", PROFILES.values(), ids=PROFILES)
def test_a_profile_is_read_with_its_region(profile, settings):
    profile(settings)
    store = site_module._open("s3://bucket")
    assert store._backend.config["region"] == "eu-north-1"
    assert store._backend.credential_provider()["access_key_id"] == "AKID"


def test_the_stacks_region_stands_over_the_profiles(profile):
    profile(PROFILES["keys"])
    assert site_module._open("s3://bucket", "us-west-2")._backend.config["region"] == "us-west-2"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("", "no AWS login was found"),
        (
            "credential_process = false\n",
            "no AWS login (Error when retrieving credentials from custom-process). Log in",
        ),
    ],
)
def test_no_login_is_told_with_what_to_do(profile, settings, words):
    profile(settings)
    with pytest.raises(CloudError) as error:
        Pipeline.load("s3://bucket/pipeline.json")
    assert words in str(error.value)


class Refusing:
    """A store whose every read fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def get(self, name: str) -> bytes:
        raise self._error


def denied(text: str) -> StoreDeniedError:
    error = translated(PermissionError(text), "GET", "s3://bucket/pipeline.json")
    assert isinstance(error, StoreDeniedError)
    error.__cause__ = PermissionError(text)
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            denied("403\n<Error><Code>AccessDenied</Code></Error>"),
            CloudError,
            "cannot be read: AccessDenied. Log in as",
        ),
        (
            denied("403\n<Error><Code>InvalidAccessKeyId</Code></Error>"),
            CloudError,
            "InvalidAccessKeyId. Your login's key is unknown or has expired: log in again, e.g. `aws sso login`",
        ),
        (
            denied("External AWS credential provider: Received None from session.get_credentials"),
            CloudError,
            "cannot be read: no AWS login was found. Log in, e.g. `aws sso login`.",
        ),
        (
            denied("External AWS credential provider: SSOTokenLoadError: no token."),
            CloudError,
            "SSOTokenLoadError: no token.",
        ),
        (
            translated(OSError("Received redirect without LOCATION"), "GET", "s3://bucket"),
            CallerError,
            "is in another region. Set AWS_REGION",
        ),
        (StoreError("GET failed: no route"), StoreError, "no route"),
    ],
)
def test_a_refused_descriptor_is_told_with_what_to_do(monkeypatch, error, kind, words):
    monkeypatch.setattr(site_module, "_open", lambda uri, region=None: Refusing(error))
    with pytest.raises(kind) as caught:
        Pipeline.load("s3://bucket/pipeline.json")
    assert words in str(caught.value)


def test_the_store_of_the_descriptor_is_opened_in_the_stacks_region(monkeypatch, tmp_path):
    opened = []
    (tmp_path / "pipeline.json").write_text(descriptor("s3://elsewhere").model_dump_json())
    real = site_module._open

    def open_store(uri, region=None):
        opened.append((uri, region))
        return real(uri) if uri.startswith("file:") else uri

    monkeypatch.setattr(site_module, "_open", open_store)
    assert Pipeline.load(f"file://{tmp_path}/pipeline.json").store == "s3://elsewhere"
    assert opened[-1] == ("s3://elsewhere", "us-west-2")


def test_a_google_login_names_its_scope(monkeypatch):
    """A service account's key gets no token without one."""
    asked = []

    def default(scopes=None):
        asked.append(scopes)
        return AnonymousCredentials(), "project"

    monkeypatch.setattr("google.auth.default", default)
    Store.open("gs://bucket", user_login=True)
    gcp_session.default_credentials()
    assert asked == [["https://www.googleapis.com/auth/cloud-platform"]] * 2
    # A worker's own token comes from its machine: nothing of google-auth is asked.
    Store.open("gs://bucket")
    assert len(asked) == 2
