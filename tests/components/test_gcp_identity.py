"""Roles on GCP. Recording mocks prove what is requested, not that GCP accepts it."""

import pytest

from components.gcp.identity import GcpIdentity, GcpIdentityArgs
from components.gcp.member import account_id, person, role_id
from tests.components.recording import PROJECT, Recorder, run

WORKER = f"serviceAccount:vision-dev-worker@{PROJECT}.iam.gserviceaccount.com"


def identity(*submitters: str, then=lambda made: None) -> Recorder:
    return run(lambda: then(GcpIdentity("vision-dev-identity", GcpIdentityArgs(submitters=list(submitters)))))


def test_a_worker_writes_lines_of_its_project_and_nothing_else():
    made = identity()
    assert made.counts() == {"GcpIdentity": 1, "projects.IAMMember": 1, "serviceaccount.Account": 1}
    assert made.one("serviceaccount.Account").inputs["accountId"] == "vision-dev-worker"
    assert {b.name: b.inputs for b in made.of("projects.IAMMember")} == {
        "vision-dev-identity-worker-logwriter": {
            "member": WORKER,
            "project": PROJECT,
            "role": "roles/logging.logWriter",
        }
    }


def test_a_submitter_reads_metrics_and_uses_the_quota_of_the_project():
    made = identity("group:vision@example.com", "user:ann@example.com")
    role = made.one("projects.IAMCustomRole").inputs
    assert role["permissions"] == ["monitoring.timeSeries.list", "serviceusage.services.use"]
    assert role["roleId"] == "vision_dev_submitter"
    bound = {b.inputs["member"]: b.inputs["role"] for b in made.of("projects.IAMMember") if "watch" in b.name}
    name = f"projects/{PROJECT}/roles/vision_dev_submitter"
    assert bound == {"group:vision@example.com": name, "user:ann@example.com": name}


def test_advice_is_two_more_permissions_of_the_same_role():
    """The role is changed in place, and nothing is bound anew."""
    args = GcpIdentityArgs(["group:vision@example.com"], advise=True)
    made, without = run(lambda: GcpIdentity("vision-dev-identity", args)), identity("group:vision@example.com")
    assert made.counts() == without.counts()
    role, before = (each.one("projects.IAMCustomRole").inputs for each in (made, without))
    added = ["compute.advice.capacity", "compute.advice.capacityHistory"]
    assert role == {**before, "permissions": [*before["permissions"], *added]}


def test_no_primitive_role_no_key_and_nothing_of_compute():
    made = identity("group:vision@example.com", then=lambda it: it.grant_data(it.worker, ["gs://raw"], ["gs://f/a/"]))
    roles = {each.inputs["role"] for each in made.resources if "role" in each.inputs}
    assert roles.isdisjoint({"roles/owner", "roles/editor", "roles/viewer"})
    assert not [role for role in roles if "compute" in role]
    assert not [p for p in made.one("projects.IAMCustomRole").inputs["permissions"] if p.startswith("compute")]
    assert not made.of("serviceaccount.Key")


def expression(bucket: str, *prefixes: str) -> str:
    start = f"projects/_/buckets/{bucket}/objects/"
    names = [f'resource.name.startsWith("{start}{prefix}")' for prefix in prefixes]
    listed = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
    return " || ".join([*names, *(f'{listed}.startsWith("{prefix}")' for prefix in prefixes)])


def test_data_is_granted_by_bucket_and_prefix():
    made = identity(
        then=lambda it: it.grant_data(it.worker, ["gs://raw", "gs://x/b/", "gs://x/a/"], ["gs://features/vision/"])
    )
    bindings = {b.name.removeprefix("vision-dev-identity-"): b.inputs for b in made.of("storage.BucketIAMMember")}
    assert {b["member"] for b in bindings.values()} == {WORKER}
    assert {name: (b["bucket"], b["role"]) for name, b in bindings.items()} == {
        "read-raw-worker": ("raw", "roles/storage.objectViewer"),
        "read-x-worker": ("x", "roles/storage.objectViewer"),
        "write-features-worker": ("features", "roles/storage.objectUser"),
    }
    assert "condition" not in bindings["read-raw-worker"]
    assert bindings["read-x-worker"]["condition"]["expression"] == expression("x", "a/", "b/")
    assert bindings["write-features-worker"]["condition"]["expression"] == expression("features", "vision/")


def test_many_prefixes_of_a_bucket_are_bound_in_portions_that_iam_takes():
    uris = [f"gs://x/{number:02}/" for number in range(14)]
    made = identity(then=lambda it: it.grant_data(it.worker, uris, []))
    bindings = made.of("storage.BucketIAMMember")
    assert {b.name for b in bindings} == {f"vision-dev-identity-read-x{suffix}-worker" for suffix in ("", "-1", "-2")}
    expressions = [b.inputs["condition"]["expression"] for b in bindings]
    assert max(e.count("||") for e in expressions) <= 12
    assert all(any(f'objects/{number:02}/")' in e for e in expressions) for number in range(14))


def test_secrets_are_granted_one_by_one_whatever_their_versions():
    names = ["projects/p/secrets/a", "projects/p/secrets/a/versions/3", "projects/q/secrets/b/versions/latest"]
    made = identity(then=lambda it: it.grant_secrets(it.worker, names))
    assert {b.name: b.inputs for b in made.of("secretmanager.SecretIamMember")} == {
        f"vision-dev-identity-secret-{project}-{secret}-worker": {
            "member": WORKER,
            "project": project,
            "role": "roles/secretmanager.secretAccessor",
            "secretId": secret,
        }
        for project, secret in (("p", "a"), ("q", "b"))
    }


def test_images_of_other_repositories_are_granted_by_repository():
    digest = "@sha256:" + 64 * "a"
    images = [
        f"europe-west1-docker.pkg.dev/base/images/python{digest}",
        f"europe-west1-docker.pkg.dev/base/images/conda{digest}",
        f"docker.io/team/x{digest}",
        "registry://preprocess:1",
    ]
    made = identity(then=lambda it: it.grant_external_pull(it.worker, images))
    assert made.one("artifactregistry.RepositoryIamMember").inputs == {
        "location": "europe-west1",
        "member": WORKER,
        "project": "base",
        "repository": "images",
        "role": "roles/artifactregistry.reader",
    }


@pytest.mark.parametrize(("name", "expected"), [("vision-dev", "vision-dev-worker"), ("v", "v-worker")])
def test_the_id_of_an_account(name: str, expected: str):
    assert account_id(name, "worker") == expected


def test_long_names_stay_apart_and_within_what_iam_takes():
    names = ["a" * 29 + "-" + end for end in ("dev", "prod", "d" * 30)]
    ids = [account_id(name, "worker") for name in names]
    assert len(set(ids)) == 3
    assert max(map(len, ids)) <= 30
    assert all(identifier.endswith("-worker") for identifier in ids)
    assert role_id("a-b", "submitter") == "a_b_submitter"


def test_people_have_names_of_their_own():
    one, other = person("user:a.b@example.com"), person("user:a-b@example.com")
    assert one.name.startswith("user-a-b-example-com-")
    assert one.name != other.name
    assert person("user:a.b@example.com") == one


def test_personal_secrets_are_the_submitters_to_change_and_the_machines_to_read():
    made = identity("user:ada@example.com", then=lambda made: made.keep_secrets())
    bound = {
        (each.inputs["member"].partition(":")[0], each.inputs["role"])
        for each in made.of("secretmanager.SecretIamMember")
    }
    read, write = "roles/secretmanager.secretAccessor", "roles/secretmanager.secretVersionManager"
    assert bound == {("serviceAccount", read), ("user", read), ("user", write)}
    assert made.one("secretmanager.Secret").inputs["secretId"] == "vision-dev-personal"
