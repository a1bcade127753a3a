"""Every rule on a resource that passes, one that fails, and one that a preview does not know enough about.

The tables are cases/<rule>.yaml. They cannot prove what a cloud makes of such a resource.
"""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

from tests.policy.cases import CASES, FOLDER, RULES, table

IN_PYTHON = {
    "aws-batch-job-queue-scheduling-policy",
    "aws-ec2-launch-template-imdsv2",
    "aws-efs-file-system-closed",
    "aws-iam-policy-submitter",
    "aws-iam-role-submitter",
    "aws-s3-bucket-closed",
    "any-tidemill-waiver-used",
    "any-tidemill-waiver-valid",
}
"""These have files of their own: test_<rule>.py, test_aws_iam_submitter.py, test_waivers.py."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_of_a_rule(case):
    found = case.found()
    assert len(found) == len(case.says), found
    for one, part in zip(found, case.says, strict=True):
        assert part in one.message
        assert one.message.endswith((".", "?"))
        assert "UNKNOWN" not in one.message


def test_every_rule_has_a_case_that_passes_one_that_fails_and_one_that_is_not_known():
    assert {path.stem.replace("_", "-") for path in FOLDER.glob("*.yaml")} == set(RULES) - IN_PYTHON
    for rule in set(RULES) - IN_PYTHON:
        sections = table(rule)
        assert set(sections) == {"pass", "fail", "unknown"}, rule
        assert all(sections.values()), rule
        assert all("says" in case for case in sections["fail"]), rule
        assert not any("says" in case for case in sections["pass"]), rule
        assert all(UNKNOWN_STRING_VALUE in str(case) for case in sections["unknown"]), rule
