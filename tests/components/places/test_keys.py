"""Keys of registries and file systems. Recording mocks prove what is requested, not what a cloud encrypts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.recording import Recorder
from tests.components.stacks import run_stack

AWS_KEY = "arn:aws:kms:us-west-2:123456789012:key/0a"
GCP_KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"


def stack(name: str, key: str | None) -> Recorder:
    files: dict[str, Any] = {} if "gcp" not in name else {"tier": "zonal", "zone": "a"}
    keyed = {"kms_key": key} if key else {}
    return run_stack(name, registry=keyed, file_systems={"shared": files | keyed})


def test_without_a_key_nothing_is_said_of_encryption():
    made = stack("vision-dev", None)
    assert not made.of("kms.Key")
    assert all("encryptionConfigurations" not in each.inputs for each in made.of("ecr.Repository"))
    assert "kmsKeyId" not in made.one("efs.FileSystem").inputs
    made = stack("vision-gcp-dev", None)
    assert not made.of("kms.CryptoKey")
    assert "kmsKeyName" not in made.one("artifactregistry.Repository", "vision-dev-registry-images").inputs


@pytest.mark.parametrize("key", ["create", AWS_KEY])
def test_a_registry_and_a_file_system_on_aws_have_their_keys(key: str):
    made = stack("vision-dev", key)
    arns = {each.name: f"arn:mock:Key:{each.name}" for each in made.of("kms.Key")}
    assert [*arns] == (["vision-dev-registry-key", "vision-dev-fs-shared-key"] if key == "create" else [])
    for repository in made.of("ecr.Repository"):
        (wanted,) = repository.inputs["encryptionConfigurations"]
        assert wanted == {"encryptionType": "KMS", "kmsKey": arns.get("vision-dev-registry-key", key)}
        assert repository.options["protect"]
    assert made.one("efs.FileSystem").inputs["kmsKeyId"] == arns.get("vision-dev-fs-shared-key", key)


def test_a_new_key_admits_the_account_and_no_other():
    for each in stack("vision-dev", "create").of("kms.Key"):
        (decides,) = each.document("policy")["Statement"]
        assert decides["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
        assert each.options["protect"]


@pytest.mark.parametrize("key", ["create", GCP_KEY])
def test_a_registry_and_a_file_system_on_gcp_have_their_keys(key: str):
    made = stack("vision-gcp-dev", key)
    registry, files = (
        made.one("artifactregistry.Repository", "vision-dev-registry-images"),
        made.one("filestore.Instance"),
    )
    names = [each.inputs["kmsKeyName"] for each in (registry, files)]
    if key != "create":
        assert names == [key, key]
        assert not made.of("kms.CryptoKeyIAMMember")
        return
    assert names == ["vision-dev-registry-key-id", "vision-dev-fs-shared-key-id"]
    admitted = {each.inputs["cryptoKeyId"]: each.inputs["member"] for each in made.of("kms.CryptoKeyIAMMember")}
    agent = "serviceAccount:service-987654321098@{}.iam.gserviceaccount.com"
    assert admitted == dict(zip(names, map(agent.format, ("gcp-sa-artifactregistry", "cloud-filer")), strict=True))


def test_an_imported_repository_keeps_its_encryption():
    made = run_stack("vision-dev", registry={"kms_key": "create"}, imports={"repositories": {"preprocess": "old"}})
    (imported,) = [each for each in made.of("ecr.Repository") if each.options["import"]]
    assert "encryptionConfigurations" not in imported.inputs
