"""The GCP registry. Recording mocks prove what is requested, not that GCP accepts it."""

import pytest

from components.config import ConfigError
from components.gcp.member import Member
from components.gcp.registry import GcpRegistry, GcpRegistryArgs
from tests.components.recording import Recorder, run
from tests.fields import about

LABELS = {"tidemill-team": "vision"}
PULLER = Member("worker", "serviceAccount:w@p.iam.gserviceaccount.com")


def registry(grant: str | None = None, **settings) -> tuple[Recorder, str]:
    urls: list[str] = []

    def program() -> None:
        made = GcpRegistry("r", GcpRegistryArgs(repository="vision-dev", labels=LABELS, **settings))
        made.url.apply(urls.append)
        if grant:
            getattr(made, grant)(PULLER)

    recorder = run(program)
    return recorder, urls[0]


def test_one_repository_for_images_of_every_name():
    made, url = registry(keep_images=7, expire_untagged_after_days=3)
    assert made.counts() == {"GcpRegistry": 1, "artifactregistry.Repository": 1}
    assert url == "us-central1-docker.pkg.dev/vision-project/vision-dev"
    assert made.one("artifactregistry.Repository").inputs == {
        "cleanupPolicies": [
            {"action": "KEEP", "id": "keep-recent", "mostRecentVersions": {"keepCount": 7}},
            {
                "action": "DELETE",
                "condition": {"olderThan": f"{3 * 86400}s", "tagState": "UNTAGGED"},
                "id": "delete-untagged",
            },
            {"action": "DELETE", "condition": {"olderThan": "86400s", "tagState": "TAGGED"}, "id": "delete-older"},
        ],
        "cleanupPolicyDryRun": False,
        "dockerConfig": {"immutableTags": True},
        "format": "DOCKER",
        "labels": LABELS,
        "location": "us-central1",
        "repositoryId": "vision-dev",
        "vulnerabilityScanningConfig": {"enablementConfig": "INHERITED"},
    }


@pytest.mark.parametrize("purge", [False, True])
def test_it_is_protected_unless_everything_may_go(purge: bool):
    made, _ = registry(purge=purge)
    assert made.one("artifactregistry.Repository").options["protect"] is not purge


def test_a_grant_is_on_the_repository_and_not_on_the_project():
    made, _ = registry("grant_pull")
    binding = made.one("artifactregistry.RepositoryIamMember")
    assert binding.name == "r-pull-worker"
    assert binding.inputs == {
        "location": "us-central1",
        "member": PULLER.principal,
        "repository": "projects/vision-project/locations/us-central1/repositories/vision-dev",
        "role": "roles/artifactregistry.reader",
    }


def test_no_image_is_kept():
    with pytest.raises(ConfigError, check=about("tidemill:registry.keep_images", "0")):
        registry(keep_images=0)
