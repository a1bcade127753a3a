"""Every name that the code writes into a job store is where IAM allows it and where a lifecycle rule looks.

This cannot prove that a cloud reads the documents as we do (tests/access asks imitations of them).
"""

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path

import pulumi_aws as aws
import pytest

from components.aws.store import AwsStore, AwsStoreArgs
from components.gcp.member import Member
from components.gcp.store import GcpStore, GcpStoreArgs
from tests.components.recording import run
from tidemill import layout

ROOT = Path(__file__).resolve().parents[2]
JOB = "tiles-01234567"
GIVEN = {"job": JOB, "key": layout.ChunkKey(JOB, 0, 1), "kind": "done", "sha256": "0" * 64, "attempt": "a"}
GIVEN |= {"template": "tiles", "trigger": "schedule tiles"}
NOT_NAMES = ("SHARDS", "START_LIMIT", "newest_first")
"""Parts of names."""
FOLDERS = [layout.JOBS, layout.OUT, layout.STATE, layout.UPLOADS, layout.FLEET, layout.LOGS]
FOLDERS += [layout.MACHINES, layout.RECONCILER, layout.REMOVALS, layout.TEMPLATES, layout.SENDS]


def names() -> dict[str, str]:
    """A name of every kind: each constant, and what each function of the layout makes."""
    made = {
        key: value
        for key, value in vars(layout).items()
        if key.isupper() and isinstance(value, str) and key not in NOT_NAMES
    }
    for key, function in inspect.getmembers(layout, inspect.isfunction):
        wanted = inspect.signature(function).parameters
        named = "name" in wanted or key in NOT_NAMES
        if function.__module__ == layout.__name__ and not key.startswith("_") and not named:
            made[key] = function(**{name: GIVEN.get(name, 1) for name in wanted})
    return made


def of(*folders: str) -> list[str]:
    """An object of every kind in these folders."""
    return [f"{name}/x" for name in names().values() if name.split("/")[0] in folders]


def covered(name: str, prefixes: Iterable[str]) -> bool:
    return any(name.startswith(prefix) for prefix in prefixes)


def test_every_name_lies_in_a_folder_of_the_layout():
    assert len(names()) >= 30
    assert [name for name in names().values() if f"{name}/x" not in of(*FOLDERS)] == [layout.DESCRIPTOR]


def test_on_aws_a_job_may_write_its_names_and_jobs_expire():
    def program() -> None:
        store = AwsStore("s", AwsStoreArgs(expire_jobs_after_days=90))
        store.grant_work(aws.iam.Role("job", assume_role_policy="{}"))

    made = run(program)
    granted = [each.partition("/")[2].removesuffix("*") for each in made.document_of("s-work-job")[0]["Resource"]]
    rules = made.one("s3.BucketLifecycleConfiguration").inputs["rules"]
    expiring = [rule["filter"]["prefix"] for rule in rules if "expiration" in rule]
    for name in of(layout.JOBS, layout.OUT, layout.STATE):
        assert covered(name, granted), name
        assert covered(name, expiring) != (name in of(layout.OUT)), name
    for name in of(layout.UPLOADS):
        assert covered(name, expiring), name


def test_on_gcp_a_machine_may_write_its_names_and_what_piles_up_expires():
    machine = Member("machine", "serviceAccount:m@p.iam.gserviceaccount.com")
    made = run(lambda: GcpStore("s", GcpStoreArgs(expire_jobs_after_days=90)).grant_work(machine))
    conditions = [each.inputs.get("condition") for each in made.of("storage.BucketIAMMember")]
    granted = [name for each in conditions if each for name in re.findall(r'/objects/([^"]+)"', each["expression"])]
    rules = made.one("storage.Bucket").inputs["lifecycleRules"]
    expiring = [prefix for rule in rules for prefix in rule["condition"].get("matchesPrefixes", [])]
    # The reconciler removes what is held; of the others there is one per queue or stack.
    kept = (
        layout.OUT,
        layout.FLEET_HELD,
        layout.FLEET_WARM,
        layout.FLEET_UNSERVED,
        layout.FLEET_REPORT,
        f"{layout.FLEET}/x",
    )
    for name in of(layout.JOBS, layout.UPLOADS, layout.OUT, layout.STATE, layout.FLEET):
        # The others in its folder are of submitters and of the reconciler.
        machines = not name.startswith(layout.FLEET) or name.startswith((layout.FLEET_ALIVE, layout.FLEET_ERRORS))
        assert covered(name, granted) == (machines or name.startswith(layout.FLEET_WARM)), name
        assert covered(name, expiring) != name.startswith(kept), name


@pytest.mark.parametrize("package", ["tidemill", "components"])
def test_no_other_module_spells_a_name_out(package: str):
    """No grant or lifecycle rule might cover a name that is built elsewhere."""
    spelled = re.compile(rf"({'|'.join(FOLDERS)})/[\w.]*$")
    found = set()
    for path in (ROOT / package).rglob("*.py"):
        tree = ast.parse(path.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
        found |= {f"{path.relative_to(ROOT)}: {each.value}" for each in texts if spelled.match(str(each.value))}
    assert {line for line in found if not line.startswith("tidemill/layout.py")} == set()
