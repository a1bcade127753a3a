"""The table of machine types as it is shipped. What this cannot prove: that the clouds describe them so today."""

import subprocess
import sys

import pytest

from tidemill import machines
from tidemill.machines import catalog


def test_a_machine_is_found_by_its_type_and_its_gpus():
    plain, gpu = machines.find("gcp", "n1-standard-8"), machines.find("gcp", "n1-standard-8", gpus=1)
    assert plain is not None
    assert gpu is not None
    assert (plain.gpus, plain.attach, gpu.gpus, gpu.gpu_name, gpu.family) == (0, None, 1, "T4", "n1-t4")
    # A type's GPUs are its own on AWS, whatever is asked for.
    assert machines.find("aws", "g5.48xlarge") == machines.find("aws", "g5.48xlarge", gpus=8)


@pytest.mark.parametrize(("cloud", "type"), [("aws", "c99.large"), ("aws", "n2-standard-8"), ("local", "localhost")])
def test_what_is_not_in_the_table_is_unknown(cloud, type):  # noqa: A002
    assert machines.find(cloud, type) is None


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_every_row_of_a_family_is_one_of_the_table(cloud):
    known = {machine.family for machine in machines.table(cloud).types}
    rows = {*catalog._rows(cloud)}
    assert rows <= known
    refused = {name for name in rows if machines.family(cloud, name).refused}
    assert {*machines.families(cloud)} == known - refused
    # Compute Engine describes neither disks nor quotas of a family, so that one without a row cannot be set up.
    assert cloud == "aws" or rows == known
    for name, types in machines.families(cloud).items():
        assert cloud == "aws" or bool(machines.family(cloud, name).gpu_quota) == bool(types[0].gpus), name


def test_no_table_is_read_before_it_is_asked_for():
    """`tidemill --help` and the worker load none, of machines or of prices."""
    code = "import tidemill.cli.app, tidemill.machines.catalog as m, tidemill.prices.table as p; "
    code += "print(m.table.cache_info().currsize, p._region.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0 0\n"


@pytest.mark.parametrize(
    ("kind", "cpus"),
    [
        ("n2-custom-8-16384", 8),
        ("zones/us-central1-a/machineTypes/n2-standard-16", 16),
        ("c3d-standard-8-lssd", 8),
        ("e2-micro", None),
        ("a2-highgpu-1g", 12),
        ("a9-highgpu-1g", None),
    ],
)
def test_a_name_of_compute_engine_is_read_as_it_is_written(kind, cpus):
    assert machines.cpus_of("gcp", kind) == cpus
