"""Images that are not for the machines of their queue. It cannot prove that the registries answer so."""

import json

import boto3
import pytest
from botocore.stub import Stubber

from tests.unit.client_fakes import ARN, FakeBackend, descriptor, pipeline, queue, uris
from tests.unit.google_fakes import FakeGoogle, gcp_descriptor, gcp_queue
from tidemill.client.health import machine_faults
from tidemill.client.site import Site
from tidemill.clouds import processors
from tidemill.clouds.findings import Finding
from tidemill.descriptor import Image, Machine
from tidemill.errors import CloudError
from tidemill.services.batch import checks as aws_checks
from tidemill.services.pubsub.checks import GcpChecks
from tidemill.store import Store

DIGEST = "sha256:" + "a" * 64
ECR = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/vision-dev/preprocess@{DIGEST}"
ATTESTATION = {"os": "unknown", "architecture": "unknown"}
AMD64, ARM64 = ({"os": "linux", "architecture": name} for name in ("amd64", "arm64"))
GRAVITON = Machine(type="c7g.4xlarge", cpus=16, memory_mib=32768)


def index(*platforms):
    return {"manifests": [{"platform": each} for each in platforms]}


@pytest.fixture
def problems(monkeypatch):
    """The problems of an image that ECR describes with answers to BatchGetImage and GetDownloadUrlForLayer."""
    session = boto3.Session(aws_access_key_id="AKID", aws_secret_access_key="key", region_name="us-west-2")
    clients = {name: session.client(name, endpoint_url="https://nowhere.invalid") for name in ("batch", "ecr")}
    monkeypatch.setattr(aws_checks, "client", lambda service, region, session: clients[service])
    monkeypatch.setattr(aws_checks, "default_session", lambda: session)

    def look(manifest, config=None, machines=(GRAVITON,)):
        batch, ecr = Stubber(clients["batch"]), Stubber(clients["ecr"])
        made = {"jobDefinitionArn": "arn", "jobDefinitionName": "n", "revision": 1, "type": "container"}
        batch.add_response("describe_job_definitions", {"jobDefinitions": [made | {"status": "ACTIVE"}]})
        ecr.add_response("describe_images", {"imageDetails": [{"imageDigest": DIGEST}]})
        if isinstance(manifest, str):
            ecr.add_client_error("batch_get_image", manifest)
        else:
            ecr.add_response("batch_get_image", {"images": [{"imageManifest": json.dumps(manifest)}]})
        if config:
            url = {"downloadUrl": f"data:application/json,{json.dumps(config)}"}
            asked = {"layerDigest": "sha256:c", "registryId": "123456789012", "repositoryName": "vision-dev/preprocess"}
            ecr.add_response("get_download_url_for_layer", url, asked)
        cpu = queue(
            images={"default": Image(ref=ECR, job_definition=f"{ARN}:job-definition/n:1")}, machines=[*machines]
        )
        on_aws = Site(descriptor(queues={"cpu": cpu}), Store(None, "s3://bucket"), FakeBackend())
        with batch, ecr:
            found = machine_faults.image_problems(on_aws, "cpu", "default")
            ecr.assert_no_pending_responses()
        return found

    return look


@pytest.mark.parametrize(
    ("manifest", "config"),
    [
        (index(AMD64, ATTESTATION), None),
        ({"config": {"digest": "sha256:c"}}, {"architecture": "amd64", "os": "linux"}),
    ],
)
def test_an_image_for_other_machines(problems, manifest, config):
    (found,) = problems(manifest, config)
    assert (found.verdict, found.owner) == ("fault", True)
    assert found.detail.endswith("is for x86_64, but the queue starts machines with arm64")
    repository = ECR.partition("@")[0]
    assert found.command == f"docker buildx build --platform linux/amd64,linux/arm64 --tag {repository}:TAG --push ."


@pytest.mark.parametrize(
    ("manifest", "config"),
    [
        (index(AMD64, ARM64, ATTESTATION), None),
        ({"config": {"digest": "sha256:c"}}, {"architecture": "arm64", "os": "linux"}),
        ("AccessDeniedException", None),
        ({"config": {}}, None),
        ([], None),
        (index(), None),
    ],
)
def test_an_image_that_may_run(problems, manifest, config):
    """What the login cannot see, or nobody can read, does not stop a submit."""
    assert problems(manifest, config) == []


def test_an_image_that_a_laptop_with_arm64_has_built(problems):
    (found,) = problems(index(ARM64, ATTESTATION), machines=[Machine(type="c7i.xlarge", cpus=4, memory_mib=8192)])
    assert found.detail.endswith("is for arm64, but the queue starts machines with x86_64")


def test_a_submit_is_refused_before_anything_is_written(monkeypatch):
    target, backend = pipeline()
    fault = processors.judge(Finding("image cpu/default", "ok", "there"), ECR, {"x86_64"}, {"arm64"})
    monkeypatch.setattr("tidemill.client.sending.check.image_problems", lambda *_: [fault])
    with pytest.raises(CloudError, match="is for x86_64, but") as refused:
        target.submit(["x"], uris(3), queue="cpu")
    assert "docker buildx" in str(refused.value)
    assert backend.arrays == []


# ---- GCP -------------------------------------------------------------------------------------------------------------

PLACE = "projects/vision-dev-1/locations/europe-west1/repositories/vision-dev"
REGISTRY = "v2/vision-dev-1/vision-dev/preprocess"
BOTH = [Machine(type=f"{family}-standard-16", cpus=16, memory_mib=65536) for family in ("n2", "t2a")]


@pytest.mark.parametrize(
    ("manifests", "single", "machines", "found"),
    [
        ([AMD64], None, BOTH, ("fault", "is for x86_64, but the queue starts machines with x86_64 and arm64")),
        ([AMD64, ARM64], None, BOTH, ("ok", "(x86_64, arm64)")),
        ([], "amd64", BOTH[1:], ("fault", "is for x86_64, but")),
        ([], "arm64", BOTH[1:], ("ok", "(arm64)")),
        ([], None, BOTH[1:], ("ok", DIGEST)),
    ],
)
def test_artifact_registry(monkeypatch, manifests, single, machines, found):
    google = FakeGoogle()
    google.resources[f"{PLACE}/dockerImages/preprocess@{DIGEST}"] = {"imageManifests": manifests}
    if single:
        google.resources[f"{REGISTRY}/manifests/{DIGEST}"] = {"config": {"digest": "sha256:c"}}
        google.resources[f"{REGISTRY}/blobs/sha256:c"] = {"architecture": single, "os": "linux"}
    cpu = gcp_queue(machines=machines)
    checks = GcpChecks(gcp_descriptor().account, google.session(monkeypatch))
    finding = checks.image("image cpu/default", cpu, cpu.images["default"])
    assert finding.verdict == found[0]
    assert found[1] in finding.detail
    calls = zip(google.calls, google.headers, strict=True)
    asked = [headers.get("accept") for (api, *_), headers in calls if "docker" in api]
    assert all("image.manifest.v1" in str(each) for each in asked)
    assert bool(asked) is (not manifests)
