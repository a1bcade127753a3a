"""The largest stack: two queues, three rungs, NAT, a key, an archive of logs. AWS may answer differently."""

import datetime

from tests.engine.inventory import inventory

SOON = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(30)
UNPROTECTED = ("aws-any-data-protect", "aws-batch-compute-environment-protect", "aws-batch-job-queue-protect")


def test_the_production_stack_comes_up_settles_and_goes(cloud, new_project):
    before = inventory(cloud.env)
    project = new_project("vision-prod")
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
        everything = {"dashboard": True, "queries": True, "no_machine_minutes": 60, "stalled_minutes": 240}
        config["tidemill:monitoring"] = {"notify": ["oncall@example.com"], **everything}
        config["tidemill:waivers"] = [
            {"rule": rule, "reason": "It goes again at the end of this test", "until": SOON} for rule in UNPROTECTED
        ]
    run = project.up(*project.policies()).ok()
    assert {step.op for step in run.steps} == {"create"}
    waived = [(name, message) for name, message in run.violations if name in UNPROTECTED]
    assert len(waived) > 5
    assert {name for name, _ in waived} == set(UNPROTECTED)
    assert all(f"Waived until {SOON}: It goes again" in message for _, message in waived)
    # The dated table lacks the price of some types.
    assert {name for name, _ in run.violations} <= {*UNPROTECTED, "aws-batch-compute-environment-price-known"}
    assert project.refresh("--expect-no-changes").ok()
    assert project.up("--expect-no-changes").ok().plan == []
    project.destroy().ok()
    assert project.resources() == []
    assert inventory(cloud.env) == before
