"""Personal secrets in both clouds' secret stores: the client of their owner, and the worker of a job.

Their logins, signatures and refusals are localcloud's; it cannot prove that the clouds answer alike. The grants of the
components are in tests/access.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from localcloud.cloud import GcpCloud
from tests.localcloud.aws.test_gateway import Gateway, allow
from tests.localcloud.gcp.test_rest import Client
from tidemill.client.secrets import PersonalSecrets
from tidemill.clouds.aws.secrets import AwsSecrets
from tidemill.clouds.gcp.secrets import GcpSecrets
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.errors import CallerError, CloudError, StoreError
from tidemill.worker import secret_readers
from tidemill.worker.secret_readers import PassingError, SecretManager, SecretsManager, given_from

CANARY = "canary-41c9\nsecond line ü"
READ, WRITE = "secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpCloud]:
    with GcpCloud(tmp_path_factory.mktemp("gcp")) as running:
        yield running


def reader_on_aws(gateway: Gateway, key: dict[str, Any]) -> SecretsManager:
    return SecretsManager({"AWS_ENDPOINT_URL": gateway.url, **{name.upper(): value for name, value in key.items()}})


def test_their_owner_changes_them_on_aws_and_a_job_reads_them(gateway: Gateway) -> None:
    arn = gateway.client("secretsmanager").create_secret(Name="ada-dev")["ARN"]
    owner, job, other = (
        gateway.session(gateway.role(name, *statements))
        for name, statements in {
            "ada-owner": [allow([READ, WRITE], arn)],
            "ada-job": [allow([READ], arn)],
            "ada-other": [allow(["s3:ListBucket"])],
        }.items()
    )
    mine, given = (
        AwsSecrets(gateway.client("secretsmanager", **owner), arn),
        given_from(reader_on_aws(gateway, job).read),
    )
    assert (mine.read(), given(arn, ["A"])) == ({}, {})
    mine.change({"A": CANARY, "B": "b"})
    mine.change({"C": "c"}, ["B"])
    assert mine.read() == {"A": CANARY, "C": "c"}
    assert given(arn, ["A", "B"]) == {"A": CANARY}
    with pytest.raises(CallerError, match="cannot be read") as refused:
        given_from(reader_on_aws(gateway, other).read)(arn, ["A"])
    assert "canary" not in str(refused.value)
    with pytest.raises(CloudError, match="is denied"):
        AwsSecrets(gateway.client("secretsmanager", **other), arn).read()
    with pytest.raises(CloudError, match="is denied"):
        AwsSecrets(gateway.client("secretsmanager", **job), arn).change({"A": "x"})


def test_their_owner_changes_them_on_gcp_and_a_machine_reads_them(
    google: GcpCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"projects/{google.project}"
    deployer = Client(google, f"serviceAccount:deployer@{google.project}.iam.gserviceaccount.com")
    deployer("POST", f"secretmanager/v1/{base}/secrets?secretId=ada-dev", {"replication": {"automatic": {}}})
    people = {name: f"{name}@{google.project}.iam.gserviceaccount.com" for name in ("owner", "machine", "other")}
    for name in people:
        deployer("POST", f"iam/v1/{base}/serviceAccounts", {"accountId": name})
    members = {name: f"serviceAccount:{email}" for name, email in people.items()}
    bindings = [
        {"role": "roles/secretmanager.secretAccessor", "members": [members["owner"], members["machine"]]},
        {"role": "roles/secretmanager.secretVersionManager", "members": [members["owner"]]},
    ]
    name = f"{base}/secrets/ada-dev"
    deployer("POST", f"secretmanager/v1/{name}:setIamPolicy", {"policy": {"bindings": bindings}})
    endpoint = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{google.url}/secretmanager/"}
    monkeypatch.setenv(*next(iter(endpoint.items())))

    def client(who: str) -> GcpSecrets:
        return GcpSecrets(GoogleSession(google.project, Credentials(Client(google, members[who]).token)), name)

    def reader(who: str) -> SecretManager:
        return SecretManager(lambda **_: Client(google, members[who]).token, endpoint)

    mine, given = client("owner"), given_from(reader("machine").read)
    assert (mine.read(), given(name, ["A"])) == ({}, {})
    mine.change({"A": CANARY, "B": "b"})
    mine.change({"C": "c"}, ["B"])
    assert mine.read() == {"A": CANARY, "C": "c"}
    assert given(name, ["A", "B"]) == {"A": CANARY}
    versions = deployer("GET", f"secretmanager/v1/{name}/versions")["versions"]
    assert sorted(each["state"] for each in versions) == ["DESTROYED", "ENABLED"]
    killed = client("owner")
    monkeypatch.setattr(killed, "_destroy_before", lambda _: None)
    killed.change({}, ["A"])
    with pytest.raises(CallerError, match="A is not set"):
        PersonalSecrets(mine).remove("A")
    versions = deployer("GET", f"secretmanager/v1/{name}/versions")["versions"]
    assert sorted(each["state"] for each in versions) == ["DESTROYED", "DESTROYED", "ENABLED"]
    with pytest.raises(CallerError, match="cannot be read"):
        given_from(reader("other").read)(name, ["A"])
    with pytest.raises(CloudError, match="is denied"):
        client("other").read()
    with pytest.raises(CloudError, match="is denied"):
        client("machine").change({"A": "x"})


class TestReading:
    """What becomes of an answer, whichever cloud gives it."""

    def test_an_outage_is_waited_for_and_then_the_store_of_secrets_is_to_blame(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(secret_readers, "PAUSES", (0.0, 0.0))
        tries: list[str] = []

        def fails(times: int) -> Any:
            def read(store: str) -> str:
                tries.append(store)
                if len(tries) <= times:
                    raise PassingError("it does not answer")
                return '{"A": "a"}'

            return given_from(read)

        assert fails(2)("s", ["A"]) == {"A": "a"}
        tries.clear()
        with pytest.raises(StoreError, match="it does not answer"):
            fails(3)("s", ["A"])

    def test_a_damaged_document_ends_the_job_and_is_not_quoted(self) -> None:
        with pytest.raises(CallerError, match="is damaged") as refused:
            given_from(lambda _: '{"A": "canary')("s", ["A"])
        assert "canary" not in str(refused.value)

    def test_a_place_without_a_secret_store_gives_nothing(self) -> None:
        assert given_from(lambda _: pytest.fail("asked"))(None, ["A"]) == {}
