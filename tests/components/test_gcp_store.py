"""The job store on GCP. Recording mocks prove what is requested, not that GCP accepts it."""

import pytest

from components.config import ConfigError
from components.gcp.member import Member
from components.gcp.store import GcpStore, GcpStoreArgs
from tests.components.recording import Recorder, run

KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
SOMEBODY = Member("worker", "serviceAccount:w@p.iam.gserviceaccount.com")
BUCKET = "s-bucket-1a2b3c4"
OBJECTS = f"projects/_/buckets/{BUCKET}/objects/"
LISTED = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
SERVICE_AGENT = "serviceAccount:service-987654321098@gs-project-accounts.iam.gserviceaccount.com"


def store(**settings) -> Recorder:
    return run(lambda: GcpStore("s", GcpStoreArgs(**settings)))


def granted(grant: str) -> Recorder:
    return run(lambda: getattr(GcpStore("s", GcpStoreArgs()), grant)(SOMEBODY))


def below(*prefixes: str, names: tuple[str, ...] = ()) -> str:
    """The condition, written out a second time."""
    return " || ".join(
        [
            *(f'resource.name.startsWith("{OBJECTS}{prefix}")' for prefix in prefixes),
            *(f'resource.name == "{OBJECTS}{name}"' for name in names),
            *(f'{LISTED}.startsWith("{prefix}")' for prefix in prefixes),
        ]
    )


def test_a_store_is_one_closed_bucket():
    made = store(labels={"tidemill-team": "vision"})
    assert made.counts() == {"GcpStore": 1, "storage.Bucket": 1}
    assert made.one("storage.Bucket").inputs == {
        "forceDestroy": False,
        "labels": {"tidemill-team": "vision"},
        "lifecycleRules": [
            {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 7}},
            {"action": {"type": "Delete"}, "condition": {"age": 7, "matchesPrefixes": ["fleet/errors/"]}},
            {"action": {"type": "Delete"}, "condition": {"age": 1, "matchesPrefixes": ["fleet/alive/"]}},
            {
                "action": {"type": "Delete"},
                "condition": {"age": 30, "matchesPrefixes": ["state/"], "withState": "LIVE"},
            },
        ],
        "location": "us-central1",
        "publicAccessPrevention": "enforced",
        "softDeletePolicy": {"retentionDurationSeconds": 7 * 86400},
        "uniformBucketLevelAccess": True,
        "versioning": {"enabled": False},
    }


@pytest.mark.parametrize("purge", [False, True])
def test_it_is_protected_and_retained_unless_everything_may_go(purge: bool):
    bucket = store(purge=purge).one("storage.Bucket")
    assert bucket.options["protect"] is not purge
    assert bucket.options["retain"] is not purge
    assert bucket.inputs["forceDestroy"] is purge


def test_jobs_expire():
    rules = store(expire_jobs_after_days=90).one("storage.Bucket").inputs["lifecycleRules"]
    assert rules[1:2] == [
        {
            "action": {"type": "Delete"},
            "condition": {"age": 90, "matchesPrefixes": ["jobs/", "uploads/"], "withState": "LIVE"},
        }
    ]


def test_versions_are_kept_for_30_days():
    bucket = store(versioning=True).one("storage.Bucket").inputs
    assert bucket["versioning"] == {"enabled": True}
    assert bucket["lifecycleRules"][3:4] == [
        {"action": {"type": "Delete"}, "condition": {"daysSinceNoncurrentTime": 30, "withState": "ARCHIVED"}}
    ]


def test_a_key_that_is_there_is_used_as_it_is():
    made = store(kms_key=KEY)
    assert made.counts() == {"GcpStore": 1, "storage.Bucket": 1}
    assert made.one("storage.Bucket").inputs["encryption"] == {"defaultKmsKeyName": KEY}


@pytest.mark.parametrize("purge", [False, True])
def test_a_new_key_turns_over_and_admits_the_services_agent_before_the_bucket_uses_it(purge: bool):
    made = store(kms_key="create", purge=purge, labels={"a": "b"})
    assert made.one("kms.KeyRing").inputs == {"location": "us-central1"}
    assert made.one("kms.CryptoKey").inputs == {
        "keyRing": "s-keys-id",
        "labels": {"a": "b"},
        "purpose": "ENCRYPT_DECRYPT",
        "rotationPeriod": f"{90 * 86400}s",
    }
    assert made.one("kms.CryptoKey").options["protect"] is not purge
    assert made.one("kms.CryptoKeyIAMMember").inputs == {
        "cryptoKeyId": "s-key-id",
        "member": SERVICE_AGENT,
        "role": "roles/cloudkms.cryptoKeyEncrypterDecrypter",
    }
    bucket = made.one("storage.Bucket")
    assert bucket.inputs["encryption"] == {"defaultKmsKeyName": "s-key-id"}
    assert made.one("kms.CryptoKeyIAMMember").urn in bucket.options["dependencies"]


def test_the_descriptor_is_an_object_of_its_own():
    made = run(lambda: GcpStore("s", GcpStoreArgs()).publish('{"a": 1}'))
    inputs = made.one("storage.BucketObject").inputs
    assert (inputs["name"], inputs["bucket"], inputs["contentType"]) == ("pipeline.json", BUCKET, "application/json")


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        (
            "grant_work",
            {
                "s-work-worker": ("roles/storage.objectUser", below("jobs/", "out/", "fleet/alive/")),
                "s-errors-worker": ("roles/storage.objectCreator", below("fleet/errors/")),
                "s-state-worker": ("roles/storage.objectUser", below("state/")),
                "s-uploads-worker": ("roles/storage.objectViewer", below("uploads/")),
                "s-warm-worker": ("roles/storage.objectViewer", below("fleet/warm/")),
            },
        ),
        (
            "grant_fleet",
            {
                "s-fleet-worker": ("roles/storage.objectUser", below("fleet/")),
                "s-jobs-worker": ("roles/storage.objectViewer", below("jobs/")),
                "s-begin-worker": ("roles/storage.objectCreator", below("jobs/")),
            },
        ),
        (
            "grant_submit",
            {
                "s-submit-worker": ("roles/storage.objectUser", below("jobs/")),
                "s-upload-worker": ("roles/storage.objectUser", below("uploads/")),
                "s-look-state-worker": ("roles/storage.objectViewer", below("state/")),
                "s-look-worker": ("roles/storage.objectViewer", below("out/", "fleet/", names=("pipeline.json",))),
                "s-hold-worker": ("roles/storage.objectUser", below("fleet/held/")),
                "s-save-worker": ("roles/storage.objectCreator", below("templates/", "sends/")),
                "s-look-sends-worker": ("roles/storage.objectViewer", below("templates/", "sends/")),
            },
        ),
        (
            "grant_send",
            {
                "s-submit-worker": ("roles/storage.objectUser", below("jobs/")),
                "s-hold-worker": ("roles/storage.objectUser", below("fleet/held/")),
                "s-note-worker": ("roles/storage.objectCreator", below("sends/")),
                "s-look-worker": (
                    "roles/storage.objectViewer",
                    below("templates/", "sends/", "uploads/", "out/", names=("pipeline.json",)),
                ),
            },
        ),
    ],
)
def test_a_grant_is_bound_to_its_prefixes(grant: str, expected: dict[str, tuple[str, str]]):
    bindings = [b for b in granted(grant).of("storage.BucketIAMMember") if "condition" in b.inputs]
    assert {b.name: (b.inputs["role"], b.inputs["condition"]["expression"]) for b in bindings} == expected
    assert {(b.inputs["bucket"], b.inputs["member"]) for b in bindings} == {(BUCKET, SOMEBODY.principal)}


@pytest.mark.parametrize(("grant", "sees"), [("grant_work", 1), ("grant_submit", 1), ("grant_fleet", 0)])
def test_who_asks_for_what_may_be_absent_sees_all_names(grant: str, sees: int):
    """Otherwise Cloud Storage answers 403 for a missing object, such as a job's tombstone."""
    bindings = [b for b in granted(grant).of("storage.BucketIAMMember") if "condition" not in b.inputs]
    assert [b.inputs["role"] for b in bindings] == ["roles/storage.legacyBucketReader"] * sees


def test_nobody_is_granted_the_descriptors_place_to_write():
    """Only the deployer writes it, by its own rights on the project."""
    for grant in ("grant_work", "grant_fleet", "grant_submit"):
        for binding in granted(grant).of("storage.BucketIAMMember"):
            if binding.inputs["role"] == "roles/storage.objectUser":
                assert "pipeline.json" not in binding.inputs["condition"]["expression"]
                assert f'"{OBJECTS}"' not in binding.inputs["condition"]["expression"]


def test_a_condition_holds_no_more_operators_than_iam_takes():
    for grant in ("grant_work", "grant_submit"):
        for binding in granted(grant).of("storage.BucketIAMMember"):
            if "condition" in binding.inputs:
                assert binding.inputs["condition"]["expression"].count("||") <= 12


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"expire_jobs_after_days": 29}, "expire_jobs_after_days"),
        ({"soft_delete_days": 0}, "soft_delete_days"),
        ({"kms_key": "arn:aws:kms:us-west-2:123456789012:key/1"}, "kms_key"),
    ],
)
def test_a_store_that_cannot_be(settings: dict, key: str):
    with pytest.raises(ConfigError, match=rf"^tidemill:store\.{key}: "):
        store(**settings)
