"""What the caps count, compared with the dated tables of machine types from the clouds."""

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from components import machines
from policy.rules.common.caps import ec2_cpus, gce_cpus


def test_vcpus_by_name_are_those_of_every_machine_type_that_a_stack_may_name():
    on_aws = {m.type: m.cpus for rows in machines.families().values() for m in rows}
    on_gcp = {m.type: m.cpus for rows in machines.families("gcp").values() for m in rows}
    assert len(on_aws) > 50
    assert len(on_gcp) > 20
    silent = {kind for kind in on_aws if kind.partition(".")[2].startswith("metal")}
    assert {kind: ec2_cpus(kind) for kind in on_aws} == on_aws | dict.fromkeys(silent)
    assert {kind: gce_cpus(kind) for kind in on_gcp} == on_gcp


def test_a_size_that_does_not_say_is_not_guessed_and_no_other_is_wrong():
    wrong = {
        kind: (ec2_cpus(kind), row["VCpuInfo"]["DefaultVCpus"])
        for kind, row in INSTANCE_TYPES.items()
        if ec2_cpus(kind) not in (None, row["VCpuInfo"]["DefaultVCpus"])
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("kind", "cpus"),
    [
        ("n2-custom-8-16384", 8),
        ("zones/us-central1-a/machineTypes/n2-standard-16", 16),
        ("c3d-standard-8-lssd", 8),
        ("e2-micro", None),
        ("a2-highgpu-1g", None),
    ],
)
def test_a_name_of_compute_engine_is_read_as_it_is_written(kind, cpus):
    assert gce_cpus(kind) == cpus
