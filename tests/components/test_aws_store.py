"""The job store. Recording mocks prove what is requested, not that AWS accepts it."""

import pulumi_aws as aws

from components.aws.store import AwsStore, AwsStoreArgs
from tests.components.recording import Recorder, run

ARN = "arn:mock:Bucket:s-bucket"
KEY = "arn:aws:kms:us-west-2:123456789012:key/1"
USE_KEY = {
    "Effect": "Allow",
    "Action": ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
    "Resource": [KEY],
}


def store(**settings) -> Recorder:
    return run(lambda: AwsStore("s", AwsStoreArgs(**settings)))


def test_what_a_store_is_made_of():
    assert store().counts() == {
        "AwsStore": 1,
        "s3.Bucket": 1,
        "s3.BucketLifecycleConfiguration": 1,
        "s3.BucketOwnershipControls": 1,
        "s3.BucketPolicy": 1,
        "s3.BucketPublicAccessBlock": 1,
        "s3.BucketServerSideEncryptionConfiguration": 1,
    }


def test_it_is_closed_to_the_public_and_to_plain_http():
    made = store()
    block = made.one("s3.BucketPublicAccessBlock").inputs
    switches = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    assert [block[switch] for switch in switches] == [True] * 4
    assert made.one("s3.BucketOwnershipControls").inputs["rule"] == {"objectOwnership": "BucketOwnerEnforced"}
    assert made.document_of("s-policy") == [
        {
            "Sid": "TlsOnly",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [ARN, f"{ARN}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]


def test_encryption_is_always_said():
    plain = store().one("s3.BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert plain == [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}, "bucketKeyEnabled": False}]
    given = store(kms_key=KEY).one("s3.BucketServerSideEncryptionConfiguration").inputs["rules"]
    default = {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": KEY}
    assert given == [{"applyServerSideEncryptionByDefault": default, "bucketKeyEnabled": True}]


def test_a_key_of_its_own_rotates_and_is_the_accounts():
    made = store(kms_key="create")
    key = made.one("kms.Key")
    assert key.inputs["enableKeyRotation"] is True
    assert made.document_of("s-key") == [
        {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*", "Resource": "*"}
    ]
    rules = made.one("s3.BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert rules[0]["applyServerSideEncryptionByDefault"]["kmsMasterKeyId"] == "arn:mock:Key:s-key"


def test_only_state_expires_unless_it_is_said():
    rules = store().one("s3.BucketLifecycleConfiguration").inputs["rules"]
    assert [rule["id"] for rule in rules] == ["unfinished-uploads", "expire-state"]
    assert [rule["expiration"] for rule in rules if "expiration" in rule] == [{"days": 30}]


def test_only_jobs_uploads_and_state_expire():
    made = store(expire_jobs_after_days=90, expire_state_after_days=14)
    rules = made.one("s3.BucketLifecycleConfiguration").inputs["rules"]
    expiring = [rule for rule in rules if "expiration" in rule]
    assert expiring == [
        {"id": f"expire-{name}", "status": "Enabled", "filter": {"prefix": f"{name}/"}, "expiration": {"days": days}}
        for name, days in (("jobs", 90), ("uploads", 90), ("state", 14))
    ]


def test_versioning_is_an_option():
    assert not store().of("s3.BucketVersioning")
    made = store(versioning=True)
    assert made.one("s3.BucketVersioning").inputs["versioningConfiguration"] == {"status": "Enabled"}


def test_it_is_protected_until_purging_is_allowed():
    kept, purged = store().one("s3.Bucket"), store(purge=True).one("s3.Bucket")
    assert (kept.options["protect"], kept.inputs["forceDestroy"]) == (True, False)
    assert (purged.options["protect"], purged.inputs["forceDestroy"]) == (False, True)


def test_a_job_reads_and_writes_jobs_and_results_and_deletes_nothing():
    def program() -> None:
        role = aws.iam.Role("job", assume_role_policy="{}")
        AwsStore("s", AwsStoreArgs(kms_key=KEY)).grant_work(role)

    assert run(program).document_of("s-work-job") == [
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:AbortMultipartUpload", "s3:PutObject"],
            "Resource": [f"{ARN}/jobs/*", f"{ARN}/out/*", f"{ARN}/state/*"],
        },
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{ARN}/uploads/*"]},
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [ARN]},
        USE_KEY,
    ]


def test_a_mapping_is_as_good_as_the_dataclass():
    recorder = run(lambda: AwsStore("s", {"expire_jobs_after_days": 30}))  # type: ignore[arg-type]
    assert "s3.Bucket" in recorder.counts()
