"""Which reference of a mirror stands for which image."""

from __future__ import annotations

import pytest

from components.config import ConfigError, parse
from components.config.checks.place import check_place
from components.config.registry_models import mirrored
from tests.unit.config.examples import GOOD, GOOD_ON_GCP

DIGEST = "@sha256:" + 64 * "a"
MIRROR = "123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub"
MIRRORS = {"docker.io": MIRROR, "ghcr.io": "registry.example.com:5000/ghcr"}


@pytest.mark.parametrize(
    ("named", "pulled"),
    [
        ("docker.io/team/preprocess", f"{MIRROR}/team/preprocess"),
        ("docker.io/library/python", f"{MIRROR}/library/python"),
        ("docker.io/python:3.12-slim", f"{MIRROR}/library/python:3.12-slim"),
        ("index.docker.io/team/preprocess", f"{MIRROR}/team/preprocess"),
        ("registry-1.docker.io/python", f"{MIRROR}/library/python"),
        ("registry.hub.docker.com/library/python", f"{MIRROR}/library/python"),
        ("team/preprocess", f"{MIRROR}/team/preprocess"),
        ("python", f"{MIRROR}/library/python"),
        ("python:3", f"{MIRROR}/library/python:3"),
        ("docker.io:443/python", f"{MIRROR}/library/python"),
        ("index.docker.io./python", f"{MIRROR}/library/python"),
        ("ghcr.io:443/a", "registry.example.com:5000/ghcr/a"),
        ("ghcr.io./a", "registry.example.com:5000/ghcr/a"),
        ("ghcr.io.:0443/a", "registry.example.com:5000/ghcr/a"),
        ("ghcr.io:4430/a", "ghcr.io:4430/a"),
        ("ghcr.io/a/b/c", "registry.example.com:5000/ghcr/a/b/c"),
        ("quay.io/a/b", "quay.io/a/b"),
        ("docker.io.example.com/a/b", "docker.io.example.com/a/b"),
        ("registry.example.com:5000/docker.io/a", "registry.example.com:5000/docker.io/a"),
        ("localhost/a", "localhost/a"),
        ("registry://preprocess", "registry://preprocess"),
        ("shared://preprocess", "shared://preprocess"),
    ],
)
def test_an_image_in_its_mirror(named: str, pulled: str):
    assert mirrored(MIRRORS, named + DIGEST) == pulled + DIGEST
    assert mirrored(MIRRORS, pulled + DIGEST) == pulled + DIGEST
    assert mirrored({}, named + DIGEST) == named + DIGEST


def test_an_image_without_digest_stays_to_be_refused():
    assert mirrored(MIRRORS, "docker.io/python:3") == "docker.io/python:3"


def test_a_stack_is_read_with_the_images_that_machines_pull():
    fuse, worker = "gcsfuse" + DIGEST, "docker.io/team/worker" + DIGEST
    queue = {**GOOD_ON_GCP["queues"]["cpu"], "gcp": {"fuse_image": fuse}}
    mirror = "us-west1-docker.pkg.dev/example-images/docker-hub"
    values = {**GOOD_ON_GCP, "queues": {"cpu": queue}, "worker_image": worker, "mirrors": {"docker.io": mirror}}
    config = parse({**values, "network": {"create": {"egress": "endpoints"}}})
    assert config.queues["cpu"].images == {"default": f"{mirror}/team/preprocess@sha256:{64 * '0'}"}
    assert config.queues["cpu"].gcp.fuse_image == f"{mirror}/library/{fuse}"
    assert config.worker_image == f"{mirror}/team/worker{DIGEST}"
    assert parse(config.model_dump(exclude_unset=True)) == config


@pytest.mark.parametrize("mirrors", [{}, MIRRORS])
def test_an_image_of_a_queue_names_its_registry_with_and_without_mirrors(mirrors):
    queue = {**GOOD["queues"]["cpu"], "images": {"default": "python" + DIGEST}}
    with pytest.raises(ConfigError) as caught:
        parse({**GOOD, "queues": {"cpu": queue}, "mirrors": mirrors})
    assert (caught.value.what, caught.value.value[:8]) == ("tidemill:queues.cpu.images.default", '"python@')


def test_a_stack_without_mirrors_is_what_it_was():
    assert parse(GOOD).queues["cpu"].images == GOOD["queues"]["cpu"]["images"]


def test_a_mirror_in_ecr_of_another_region_needs_a_way_there():
    def placed(egress: str, region: str | None) -> None:
        network = {"create": {"egress": egress}}
        check_place(parse({**GOOD, "network": network, "mirrors": {"docker.io": MIRROR}}), region, None)

    for egress, region in (("nat", "eu-west-1"), ("endpoints", "us-west-2"), ("endpoints", None)):
        placed(egress, region)
    with pytest.raises(ConfigError) as caught:
        placed("endpoints", "eu-west-1")
    assert caught.value.what == 'tidemill:mirrors."docker.io"'
    assert "ECR of eu-west-1" in caught.value.allowed
