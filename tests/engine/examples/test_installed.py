"""The installed distributions: their files, their metadata, and a pipeline on each cloud from an environment that
cannot import this repository.

Their dependencies are those of our own environment; whether an index resolves the ranges is not tested.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from email import message_from_string
from pathlib import Path

import pytest
import yaml

import components
from components.services.pubsub import reconciler
from localcloud.cloud import Cloud, GcpCloud
from tests.distributions import ask, build, install, install_alone
from tests.harness import ROOT, Project

PROGRAM = """
    import pulumi
    from tidemill_pulumi import CpuRange, Item, Machines, Pipeline, PipelineArgs, Queue, Rung, StackConfig

    queue = Queue(
        images={"default": "docker.io/team/preprocess@sha256:" + 64 * "0"},
        item=Item(cpus=2, memory_mib=4096),
        capacity=[Rung(market="spot", max_cpus=64), Rung(market="on_demand", max_cpus=16)],
    )
    config = StackConfig(team="vision", environment="dev", cloud="aws", queues={"cpu": queue})
    pipeline = Pipeline("vision-dev", PipelineArgs(config=config))
    pulumi.export("pipeline_uri", pipeline.descriptor_uri)
"""
PARTS = """
    from tidemill_pulumi import (
        AwsBatchQueue, AwsBatchQueueArgs, AwsFileSystem, AwsFileSystemArgs, AwsIdentity, AwsIdentityArgs, AwsLogs,
        AwsLogsArgs, AwsNetwork, AwsNetworkArgs, AwsStore, AwsStoreArgs, FileSystem,
    )

    network = AwsNetwork("own-network", AwsNetworkArgs(zones=2, egress="nat"))
    identity = AwsIdentity("own-identity", AwsIdentityArgs())
    store = AwsStore("own-store", AwsStoreArgs(versioning=True))
    logs = AwsLogs("own-logs", AwsLogsArgs())
    files = AwsFileSystem("own-files", AwsFileSystemArgs(
        vpc_id=network.vpc_id, subnet_ids=network.subnet_ids, zones=network.zones,
        client_group_id=network.security_group_id, client_role_arn=identity.job_role.arn,
        settings=FileSystem(throughput="bursting"),
    ))
    parts = AwsBatchQueue("own-cpu", AwsBatchQueueArgs(
        queue="cpu", settings=queue, images=queue.images, team="own",
        subnet_ids=network.subnet_ids, security_group_ids=[network.security_group_id],
        instance_profile_arn=identity.instance_profile_arn, execution_role_arn=identity.execution_role.arn,
        job_role_arn=identity.job_role.arn, store_uri=store.uri, log_group=logs.group,
    ))
    store.grant_work(identity.job_role)
    machines = Machines(families=["c7i"], cpus=CpuRange(min=4, max=16))
    pulumi.export("queue", parts.arn)
    pulumi.export("image", parts.job_definitions["default"])
"""
NOT_INSTALLED = {
    *("LICENSE", "packaging/policy_pack.py", "packaging/shared_metadata.py", "pyproject.toml", "README.md"),
    *("reference.py", "schema.py"),
}
"""What builds and describes the distribution, and what writes files of the repository."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def python(built: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with both wheels."""
    return install([each for each in built if each.suffix == ".whl"], tmp_path_factory.mktemp("environment"))


def content(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def tracked(folder: str) -> set[str]:
    """Files of a folder of this repository, new ones too, without what git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return {name.removeprefix(f"{folder}/") for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_each_project_builds_an_sdist_and_a_wheel(built):
    assert [each.name.partition("-")[0] for each in built] == 2 * ["tidemill"] + 2 * ["tidemill_pulumi"]


def test_the_wheels_have_every_file_and_say_that_they_are_typed(built):
    ours, theirs = (content(each) for each in built if each.suffix == ".whl")
    assert {f"tidemill/{name}" for name in tracked("tidemill")} <= ours
    wanted = {f"tidemill_pulumi/{name}" for name in tracked("components") - NOT_INSTALLED}
    wanted |= {f"tidemill_pulumi/policy/{name}" for name in tracked("policy")}
    assert {name for name in theirs if ".dist-info/" not in name} == wanted
    assert {"tidemill_pulumi/py.typed", "tidemill_pulumi/services/pubsub/host/run.sh"} <= theirs
    assert "tidemill/py.typed" in ours


def test_one_version_and_one_set_of_ranges_is_for_both(built):
    (wheel,) = (each for each in built if each.name.startswith("tidemill_pulumi") and each.suffix == ".whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith("/METADATA"))
        metadata = message_from_string(opened.read(name).decode())
    (ours,) = (each for each in built if each.name.startswith("tidemill-") and each.suffix == ".whl")
    assert ours.name.split("-")[1] == metadata["Version"]
    needs = metadata.get_all("Requires-Dist")
    assert needs
    assert f"tidemill=={metadata['Version']}" in needs
    assert {each.partition(";")[2].strip(): each.partition("<")[0] for each in needs if ";" in each} == {
        "extra == 'aws'": "pulumi-aws",
        "extra == 'gcp'": "pulumi-gcp",
    }
    assert (ROOT / "components" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_repository_is_out_of_reach(python, tmp_path):
    program = """
        import importlib.util as found, tidemill, tidemill_pulumi
        print([name for name in ("components", "ops", "policy", "plugin", "tests") if found.find_spec(name)])
        print(tidemill.__file__, tidemill_pulumi.__file__)
    """
    reached, places = ask(python, tmp_path, program).splitlines()
    assert reached == "[]"
    assert [str(python.parents[1]) in place for place in places.split()] == [True, True]


def test_the_wheel_alone_runs_an_item(built, tmp_path):
    (wheel,) = (each for each in built if each.name.startswith("tidemill-") and each.suffix == ".whl")
    python = install_alone(wheel, tmp_path / "environment")
    program = """
        import importlib.util, tidemill
        print([name for name in ("boto3", "google", "pulumi", "pytest", "yaml") if importlib.util.find_spec(name)])
        print(list(tidemill.Pipeline.local("store", workers=1).map(len, ["abc"])))
    """
    assert ask(python, tmp_path, program).splitlines() == ["[]", "[3]"]


def test_each_name_is_there_and_loads_one_clouds_sdk(python, tmp_path):
    for kind, sdk, other in (
        ("AwsStoreArgs", "pulumi_aws", "pulumi_gcp"),
        ("GcpStore", "pulumi_gcp", "pulumi_aws"),
        ("Queue", "pydantic", "pulumi_aws"),
    ):
        program = (
            f"import sys; from tidemill_pulumi import {kind}; print({sdk!r} in sys.modules, {other!r} in sys.modules)"
        )
        assert ask(python, tmp_path, program).split() == ["True", "False"], kind
    program = "import tidemill_pulumi as it; print(len([getattr(it, name) for name in it.__all__]))"
    assert int(ask(python, tmp_path, program)) == len(components.__all__)


def test_the_reconcilers_archive_is_the_same(python, tmp_path):
    program = "from tidemill_pulumi.services.pubsub.reconciler import digest, source; print(digest(source()))"
    assert ask(python, tmp_path, program).strip() == reconciler.digest(reconciler.source())


MISTAKES = [
    ("max_cpus=64", "max_cpu=64", 'No parameter named "max_cpu"'),
    ("capacity=[", "capacities=[", 'No parameter named "capacities"'),
    ("memory_mib=4096", 'memory_mib="4G"', '"Literal[\'4G\']" is not assignable to "int"'),
    ('market="spot"', 'market="sport"', "\"Literal['sport']\""),
    ('environment="dev", ', "", 'Argument missing for parameter "environment"'),
    ("settings=queue", "settings=files", "is not assignable to"),
    ("parts.arn)", "parts.arns)", 'Cannot access attribute "arns"'),
]
"""Text of a user's program, a mistake in its place, and the finding."""


def checked(python: Path, folder: Path, programs: Mapping[str, str]) -> dict[str, list[str]]:
    """The findings of pyright, as strict as it can be, in users' programs: `rule: message` each, by program."""
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(program)
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [str(Path(sys.prefix, "bin", "pyright")), "--outputjson", "--pythonpath", str(python)]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(programs), done.stdout
    found: dict[str, list[str]] = {name: [] for name in programs}
    for each in report["generalDiagnostics"]:
        found[Path(each["file"]).stem].append(f"{each['rule']}: {each['message']}")
    return found


def test_a_type_checker_accepts_a_program_and_finds_mistakes(python, tmp_path):
    """One run for all, since reading Pulumi's packages costs more than the programs."""
    program = textwrap.dedent(PROGRAM) + textwrap.dedent(PARTS)
    assert all(right in program for right, _, _ in MISTAKES)
    wrong = {f"mistake_{number}": program.replace(*each[:2], 1) for number, each in enumerate(MISTAKES)}
    found = checked(python, tmp_path, {"right": program, **wrong})
    assert found["right"] == []
    for number, (_, mistake, words) in enumerate(MISTAKES):
        assert any(words in each for each in found[f"mistake_{number}"]), (mistake, found)


def theirs(python: Path, folder: Path, env: Mapping[str, str], program: str) -> Project:
    """A team's own project outside this repository, whose Python is the environment's."""
    source, project = folder / "program", folder / "project"
    for each in (source, project):
        each.mkdir()
    runtime = {"name": "python", "options": {"virtualenv": str(python.parents[1])}}
    (source / "Pulumi.yaml").write_text(json.dumps({"name": "theirs", "runtime": runtime}))
    (source / "__main__.py").write_text(textwrap.dedent(program))
    return Project(project, env, "dev", source)


@pytest.mark.parametrize(("cloud", "kind"), [(Cloud, "JobQueue"), (GcpCloud, "RegionInstanceGroupManager")])
def test_a_pipeline_previews_from_there(cloud, kind, python, tmp_path):
    with cloud(tmp_path / "cloud") as running:
        project = theirs(python, tmp_path, running.env, PROGRAM.replace('"aws"', repr(cloud.name)))
        with project.config() as config:
            if cloud is Cloud:
                config["aws:region"] = "us-west-2"
            else:
                config |= {"gcp:region": "us-central1", "gcp:project": running.project}
        run = project.run("preview", events=True).ok()
    assert Counter(step.op for step in run.steps).keys() == {"create"}
    assert kind in {step.kind.rpartition(":")[2] for step in run.steps}


EXAMPLES = ROOT / "examples" / "pulumi"
PROGRAMS = sorted(path.parent.name for path in EXAMPLES.glob("*/__main__.py"))
BESIDE = {"ephemeral", "shared_vpc"}
"""Examples whose previews need something else."""
ONCE = """
    import runpy, sys

    with runpy.run_path(sys.argv[1])["new_stack"]("once-1a2b") as stack:
        print(sum(stack.preview().change_summary.values()))
"""


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of commands on an AWS and on a GCP."""
    with Cloud(tmp_path_factory.mktemp("aws")) as aws, GcpCloud(tmp_path_factory.mktemp("gcp")) as gcp:
        yield aws.env | {key: value for key, value in gcp.settings.items() if key.startswith(("GO", "CLOUDSDK"))}


@pytest.fixture
def new_example(python: Path, clouds: dict[str, str], tmp_path: Path) -> Callable[[str], Project]:
    """Make an example's stack, whose program runs in the environment."""

    def make(name: str) -> Project:
        source, copy = tmp_path / name, tmp_path / "copy"
        shutil.copytree(EXAMPLES / name, source, ignore=shutil.ignore_patterns("__pycache__"))
        copy.mkdir()
        settings = yaml.safe_load((source / "Pulumi.yaml").read_text())
        settings["runtime"]["options"]["virtualenv"] = str(python.parents[1])
        (source / "Pulumi.yaml").write_text(json.dumps(settings))
        return Project(copy, clouds, "dev", source)

    return make


@pytest.mark.parametrize("name", [each for each in PROGRAMS if each not in BESIDE])
def test_an_example_previews_from_there(name, new_example):
    run = new_example(name).run("preview", events=True).ok()
    assert {step.op for step in run.steps} == {"create"}
    assert len(run.steps) > 20


def test_the_example_in_a_shared_network_asks_for_that_networks_stack(new_example):
    """`test_programs.py` brings it up beside one."""
    project = new_example("shared_vpc")
    with project.config() as config:
        config["tidemill-shared-vpc:networkStack"] = "organization/network/prod"
    assert 'unknown stack "organization/network/prod"' in project.run("preview", events=True).refused().text


def test_the_example_of_the_automation_api_previews_from_there(python, clouds, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = clouds | {"PULUMI_BACKEND_URL": f"file://{tmp_path}", "TMPDIR": str(temporary)}
    command = [str(python), "-I", "-c", textwrap.dedent(ONCE), str(EXAMPLES / "ephemeral" / "__main__.py")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
    assert not list(temporary.iterdir())


def test_the_wrong_version_of_an_sdk_is_told_there_too(new_example, tmp_path):
    project = new_example("one_queue")
    metadata = tmp_path / "pulumi_aws-6.83.4.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: pulumi-aws\nVersion: 6.83.4\n")
    project.env["PYTHONPATH"] = str(tmp_path)
    run = project.up().refused()
    assert run.errors[0].startswith("pulumi-aws: 6.83.4 is not allowed. Allowed: 7.30 or later, and earlier than 8.")
    assert "Traceback" not in run.text
    assert project.resources() == []


def test_a_wrong_key_in_code_is_told_in_one_line(python, tmp_path):
    """As the same key in a stack file; the program's own traceback is not shown."""
    with Cloud(tmp_path / "cloud") as running:
        project = theirs(python, tmp_path, running.env, PROGRAM.replace("max_cpus=64", "max_cpu=64"))
        run = project.run("preview", events=True).refused()
    told = ["Rung.max_cpu is not a known key. Did you mean 'max_cpus'?" in each for each in run.errors]
    assert told.count(True) == 1
    assert "Traceback" not in run.text
