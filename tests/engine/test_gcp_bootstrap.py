"""The stack of a project: APIs, service agents, state and its key, CI's identities, and the quotas of its region."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import GcpCloud
from ops.project import ROOT
from tests.engine.google import Google
from tests.harness import Project, typed


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as running:
        yield Google(running)


def lasting(google: Google) -> set[str]:
    """Everything except records of past actions."""
    return {name for name in google.names() if "/operations/" not in name}


@pytest.fixture(scope="module")
def before(google) -> set[str]:
    return lasting(google)


@pytest.fixture(scope="module")
def account(google, before, tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("account"), google.cloud.env, "account", ROOT / "bootstrap")
    with project.config() as config:
        config.update({"gcp:project": google.project, "gcp:region": "us-central1", "tidemill-bootstrap:cloud": "gcp"})
        config["tidemill-bootstrap:ci"] = {"repository": "example/infra", "environments": ["dev"]}
    preview = project.preview().ok()
    assert preview.violations == []
    assert sorted(preview.plan) == sorted(project.up().ok().plan)
    return project


def test_the_project_has_a_place_for_state(google, account):
    outputs = account.outputs()
    assert outputs["backend_url"].startswith("gs://tidemill-state-bucket-")
    assert outputs["secrets_provider"].startswith(f"gcpkms://projects/{google.project}/locations/us-central1/keyRings/")
    assert account.up("--expect-no-changes").ok().plan == []


def refused(google: Google) -> set[tuple[str, str]]:
    found = google.cloud.control("denied")
    return {(each["principal"].partition("@")[0], each["permission"]) for each in found}


def login(google: Google, folder: Path, email: str) -> dict[str, str]:
    path = folder / f"{email}.json"
    path.write_text(json.dumps(google.cloud.control("credentials", email=email)))
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}


def test_the_reader_compares_the_projects_own_stack(google, account, tmp_path):
    """`drift` of bootstrap/ runs as it, and its rights cover everything that this stack makes."""
    owner = dict(account.env)
    account.env |= login(google, tmp_path, account.outputs()["ci"]["preview"])
    account.preview("--refresh", "--expect-no-changes").ok()
    account.env = owner
    assert refused(google) == set()


def test_ci_deploys_as_a_writer_and_previews_as_a_reader(google, account, tmp_path):
    """The state is in a folder here: the engine's client for buckets reaches only Google's addresses."""
    standing, ci = lasting(google), account.outputs()["ci"]

    writer, reader = login(google, tmp_path, ci["deploy"]["dev"]), login(google, tmp_path, ci["preview"])
    (tmp_path / "team").mkdir()
    team = Project(tmp_path / "team", {**google.cloud.env, **writer}, "vision-gcp-dev")
    with team.config() as config:
        config.update({"gcp:project": google.project, "tidemill:allow": ["purge"]})
        config["tidemill:file_systems"] = {"shared": {"tier": "regional"}}
        del config["tidemill:data"]
        # A budget belongs to the billing account, where CI has no rights until its owner grants them (docs/budgets.md).
        del config["tidemill:budget"]
    team.up().ok()
    team.env |= reader
    team.preview("--refresh", "--expect-no-changes").ok()
    assert refused(google) == set()
    with team.config() as config:
        config["tidemill:logs"] = {"retention_days": 60}
    team.up().refused()
    assert refused(google) == {("serviceAccount:tidemill-ci-preview", "logging.buckets.update")}
    team.env |= writer
    team.destroy().ok()
    assert {who for who, _ in refused(google)} == {"serviceAccount:tidemill-ci-preview"}
    assert lasting(google) == standing


def test_the_project_goes_when_it_is_purged(account, before, google):
    assert "protect" in account.destroy().refused().text
    with account.config() as config:
        config["tidemill-bootstrap:purge"] = True
    account.up().ok()
    account.destroy().ok()
    assert account.resources() == []
    # A key ring and its keys cannot be deleted on Google; here the provider takes them away.
    assert lasting(google) == before


def test_the_quotas_of_the_region_are_read(google):
    words = ("-m", "ops", "quotas", "--stack", "demo-gcp")
    said = typed(*words, cwd=ROOT, env=google.cloud.env, timeout=600)
    assert said == (0, f"The quotas of {google.project} in us-central1 are enough.\n")
