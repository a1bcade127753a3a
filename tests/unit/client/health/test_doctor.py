"""Doctor's findings and the commands it suggests. This cannot prove that AWS answers so."""

import json
import sys
import time

import boto3
import pytest
from botocore.stub import Stubber

from tests.unit.client_fakes import ARN, FakeBackend, descriptor, gpu_machine, queue
from tidemill import layout
from tidemill.cli import main
from tidemill.client import site as site_module
from tidemill.client.health import doctor, machine_faults
from tidemill.client.site import Site
from tidemill.clouds.aws import login as aws_login
from tidemill.descriptor import Image, Machine, Rung
from tidemill.errors import CallerError, CloudError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.machines.quotas import kind_of
from tidemill.services.backend import QueueState
from tidemill.services.batch import checks as aws_checks
from tidemill.services.batch.checks import AwsChecks
from tidemill.store import Entry, Store
from tidemill.store.errors import OTHER_REGION, translated

DIGEST = "sha256:" + "a" * 64
ECR = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/vision-dev/preprocess@{DIGEST}"
DEFINITION = {"jobDefinitionArn": "arn", "jobDefinitionName": "n", "revision": 1, "type": "container"}
ORDER = [{"order": 1, "computeEnvironment": "ce-1"}]


@pytest.fixture
def aws(monkeypatch):
    """Stubbed clients by service; what a test does not add to them is refused."""
    session = boto3.Session(aws_access_key_id="AKID", aws_secret_access_key="key", region_name="us-west-2")
    names = ("sts", "batch", "ecr", "service-quotas")
    clients = {name: session.client(name, endpoint_url="https://nowhere.invalid") for name in names}
    stubs = {name: Stubber(made) for name, made in clients.items()}
    for stub in stubs.values():
        stub.activate()
    for module in (aws_login, aws_checks):
        monkeypatch.setattr(module, "client", lambda service, region, session: clients[service])
        monkeypatch.setattr(module, "default_session", lambda: session)
    return stubs


def job_queue(**changes):
    plain = {
        "jobQueueName": "cpu",
        "jobQueueArn": f"{ARN}:job-queue/cpu",
        "state": "ENABLED",
        "status": "VALID",
        "priority": 1,
        "computeEnvironmentOrder": ORDER,
    }
    return {"jobQueues": [plain | changes]}


def environment(**changes):
    plain = {
        "computeEnvironmentName": "ce-1",
        "computeEnvironmentArn": "arn",
        "ecsClusterArn": "arn",
        "state": "ENABLED",
        "status": "VALID",
    }
    return {"computeEnvironments": [plain | changes]}


def answers(aws, *, job_queues=None, environments=None, definitions=None, image=None, quota=1000.0):
    batch = aws["batch"]
    batch.add_response("describe_job_queues", job_queue() if job_queues is None else job_queues)
    if environments != "not asked":
        batch.add_response("describe_compute_environments", environments or environment())
    found = [DEFINITION | {"status": "ACTIVE"}] if definitions is None else definitions
    batch.add_response("describe_job_definitions", {"jobDefinitions": found})
    if isinstance(image, str):
        aws["ecr"].add_client_error("describe_images", image)
    else:
        aws["ecr"].add_response("describe_images", {"imageDetails": [{"imageDigest": DIGEST}]})
    if isinstance(quota, str):
        aws["service-quotas"].add_client_error("get_service_quota", quota)
    else:
        asked = {"ServiceCode": "ec2", "QuotaCode": "L-34B43A08"}
        aws["service-quotas"].add_response("get_service_quota", {"Quota": {"Value": quota}}, asked)


def look(*, mirrored=False, **changes):
    definition = f"{ARN}:job-definition/cpu-default:1"
    image = Image(ref=ECR, job_definition=definition, mirrored=mirrored)
    cpu = queue(images={"default": image}, **changes)
    found = list(AwsChecks("us-west-2").pipeline(descriptor(queues={"cpu": cpu})))
    return {finding.check: finding for finding in found}


def test_nothing_is_at_fault(aws):
    answers(aws)
    found = look()
    assert {check: finding.verdict for check, finding in found.items()} == {
        "queue cpu": "ok",
        "image cpu/default": "ok",
        "quota spot standard": "ok",
    }
    assert {finding.command for finding in found.values()} == {""}
    assert found["image cpu/default"].detail == f"vision-dev/preprocess@{DIGEST}"


QUEUE = f"aws batch update-job-queue --job-queue {ARN}:job-queue/cpu --state ENABLED --region us-west-2"
MORE = (
    "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-34B43A08 --desired-value 64 "
    "--region us-west-2"
)
MACHINES = "aws batch update-compute-environment --compute-environment ce-1 --state ENABLED --region us-west-2"


@pytest.mark.parametrize(
    ("given", "check", "words", "command"),
    [
        (
            {"job_queues": {"jobQueues": []}, "environments": "not asked"},
            "queue cpu",
            "is not there",
            "pulumi up",
        ),
        (
            {"job_queues": job_queue(status="DELETING"), "environments": "not asked"},
            "queue cpu",
            "is not there",
            "pulumi up",
        ),
        (
            {"job_queues": job_queue(state="DISABLED")},
            "queue cpu",
            "is disabled: it takes no jobs",
            QUEUE,
        ),
        ({"environments": environment(state="DISABLED")}, "queue cpu", "ce-1 is disabled", MACHINES),
        (
            {"environments": environment(status="INVALID", statusReason="no role")},
            "queue cpu",
            "ce-1 is invalid: no role",
            "pulumi up",
        ),
        (
            {"job_queues": job_queue(status="INVALID", statusReason="broken")},
            "queue cpu",
            "cannot start machines: broken",
            "pulumi up",
        ),
        ({"definitions": []}, "image cpu/default", "is not active", "pulumi up"),
        ({"definitions": [DEFINITION | {"status": "INACTIVE"}]}, "image cpu/default", "is not active", "pulumi up"),
        ({"image": "ImageNotFoundException"}, "image cpu/default", "is not in the registry", f"docker push {ECR}"),
        ({"image": "RepositoryNotFoundException"}, "image cpu/default", "is not in the registry", f"docker push {ECR}"),
        (
            {"quota": 5.0},
            "quota spot standard",
            "5 vCPUs in us-west-2, the queues may start 64; the smallest machine has 8: none starts",
            MORE,
        ),
    ],
)
def test_every_fault_has_a_command(aws, given, check, words, command):
    answers(aws, **given)
    finding = look()[check]
    assert finding.verdict == "fault"
    assert words in finding.detail
    assert (finding.command, finding.owner) == (command, True)


def test_an_image_that_its_mirror_may_still_fetch_is_no_fault(aws):
    """A submit stops at a fault, and no machine would ever pull the image."""
    answers(aws, image="ImageNotFoundException")
    finding = look(mirrored=True)["image cpu/default"]
    assert (finding.verdict, finding.command) == ("warning", f"docker pull {ECR}")


def test_a_repository_that_a_mirror_lacks_is_a_fault(aws):
    answers(aws, image="RepositoryNotFoundException")
    finding = look(mirrored=True)["image cpu/default"]
    made = "aws ecr create-repository --repository-name vision-dev/preprocess --region us-west-2"
    assert (finding.verdict, finding.command, finding.owner) == ("fault", made, True)


def test_a_quota_below_what_was_asked_for_is_a_warning(aws):
    answers(aws, quota=32.0)
    finding = look()["quota spot standard"]
    assert (finding.verdict, finding.detail.endswith("may start 64: jobs wait at the quota")) == ("warning", True)
    assert "--desired-value 64" in finding.command


@pytest.mark.parametrize(
    ("given", "check"),
    [
        ({"image": "AccessDeniedException"}, "image cpu/default"),
        ({"quota": "AccessDeniedException"}, "quota spot standard"),
    ],
)
def test_what_may_not_be_seen_is_no_fault(aws, given, check):
    answers(aws, **given)
    assert look()[check].verdict == "unknown"


def test_a_denied_look_names_the_policy(aws):
    aws["batch"].add_client_error("describe_job_queues", "AccessDeniedException")
    aws["batch"].add_client_error("describe_job_definitions", "AccessDeniedException")
    aws["service-quotas"].add_client_error("get_service_quota", "AccessDeniedException")
    finding = look()["queue cpu"]
    assert (finding.verdict, finding.command) == ("fault", "pulumi stack output | grep submitter")
    assert "batch:DescribeJobQueues is denied" in finding.detail


def test_quotas_are_added_up_by_market_and_class(aws):
    aws["service-quotas"].add_response("get_service_quota", {"Quota": {"Value": 1000.0}})
    aws["service-quotas"].add_response("get_service_quota", {"Quota": {"Value": 1000.0}})
    ladder = [Rung(market="spot", max_cpus=64), Rung(market="on_demand", max_cpus=16)]
    gpu = [gpu_machine(), Machine(type="trn1.2xlarge", cpus=8, memory_mib=32768)]
    aws["service-quotas"].add_response("get_service_quota", {"Quota": {"Value": 1000.0}})
    found = descriptor(queues={"a": queue(capacity=ladder), "b": queue(), "g": queue(machines=gpu)})
    aws["service-quotas"].add_response("get_service_quota", {"Quota": {"Value": 1000.0}})
    said = {f.check: f.detail for f in AwsChecks("us-west-2")._quotas(found)}
    assert said == {
        "quota on_demand standard": "1000 vCPUs in us-west-2, the queues may start 16",
        "quota spot g": "1000 vCPUs in us-west-2, the queues may start 64",
        "quota spot standard": "1000 vCPUs in us-west-2, the queues may start 128",
        "quota spot trn": "1000 vCPUs in us-west-2, the queues may start 64",
    }


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        ("c7i.large", "standard"),
        ("t3.micro", "standard"),
        ("is4gen.large", "standard"),
        ("g5.xlarge", "g"),
        ("vt1.3xlarge", "g"),
        ("gr6.4xlarge", "g"),
        ("p4d.24xlarge", "p"),
        ("p5en.48xlarge", "p"),
        ("inf2.xlarge", "inf"),
        ("trn1.2xlarge", "trn"),
        ("x2idn.16xlarge", "x"),
        ("dl1.24xlarge", "dl"),
        ("hpc7a.12xlarge", "hpc"),
    ],
)
def test_the_class_of_a_type(machine, kind):
    assert kind_of(machine) == kind


def test_p5_has_a_quota_of_its_own_on_spot():
    kinds = {name: kind_of(name, "spot") for name in ("p4de.24xlarge", "p5.4xlarge", "p6-b200.48xlarge", "g6e.xlarge")}
    assert [*kinds.values()] == ["p", "p5", "p5", "g"]


@pytest.mark.parametrize(("answer", "faults"), [("ImageNotFoundException", 1), ("AccessDeniedException", 0), (None, 0)])
def test_a_submit_can_ask_for_its_image(aws, answer, faults):
    aws["batch"].add_response("describe_job_definitions", {"jobDefinitions": [DEFINITION | {"status": "ACTIVE"}]})
    if answer:
        aws["ecr"].add_client_error("describe_images", answer)
    else:
        aws["ecr"].add_response("describe_images", {"imageDetails": [{"imageDigest": DIGEST}]})
    cpu = queue(images={"default": Image(ref=ECR, job_definition=f"{ARN}:job-definition/cpu-default:1")})
    on_aws = Site(descriptor(queues={"cpu": cpu}), Store(None, "s3://bucket"), FakeBackend())
    assert len(machine_faults.image_problems(on_aws, "cpu", "default")) == faults


# ---- login -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "command"),
    [
        ("sso_session = work", "aws sso login --profile ada"),
        ("sso_start_url = https://x", "aws sso login --profile ada"),
        ("credential_process = corp-login --aws", "corp-login --aws"),
        ("region = us-west-2", "aws configure --profile ada"),
        (None, "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"),
    ],
)
def test_a_login_that_fails_says_how_to_log_in(aws, monkeypatch, tmp_path, profile, command):
    (tmp_path / "config").write_text(f"[profile ada]\n{profile or ''}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    if profile is None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "old")
    aws["sts"].add_client_error("get_caller_identity", "ExpiredToken")
    found, account = aws_login.check_login(boto3.Session(profile_name="ada"))
    assert (found.verdict, found.command, account) == ("fault", command, None)
    assert "the AWS login is not valid" in found.detail


@pytest.mark.parametrize(("module", "command"), [("boto3", "pip install 'tidemill[aws]'"), (None, "unset AWS_PROFILE")])
def test_no_session_at_all(monkeypatch, module, command):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    if module:
        monkeypatch.setitem(sys.modules, module, None)
    (found,) = doctor.check_pipeline("s3://bucket/pipeline.json")
    assert (found.check, found.command) == ("login", command)


def test_a_login_in_another_account(aws, monkeypatch, tmp_path):
    aws["sts"].add_response(
        "get_caller_identity", {"Account": "999999999999", "Arn": "arn:aws:iam::999999999999:user/ada", "UserId": "u"}
    )
    made = Site(descriptor(), Store.open("memory://"), FakeBackend())
    monkeypatch.setattr(doctor, "read_site", lambda uri: made)
    monkeypatch.setattr(AwsChecks, "pipeline", lambda self, descriptor: iter(()))
    found = {f.check: f for f in doctor.check_pipeline("s3://bucket/pipeline.json")}
    assert found["login"].detail == "arn:aws:iam::999999999999:user/ada (profile default, explicit)"
    assert found["descriptor"].detail.startswith("the stack is in account 123456789012, the login in 999999999999")
    assert found["descriptor"].command == "aws configure list-profiles"


# ---- descriptor ------------------------------------------------------------------------------------------------------


def answered(text):
    """The result of a store's answer."""
    return translated(PermissionError(text), "GET", "s3://bucket/pipeline.json")


class Answering:
    def __init__(self, answer):
        self._answer = answer

    def get(self, name):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "command", "owner"),
    [
        (b'{"schema_version": 2}', "pip install --upgrade tidemill", False),
        (StoreError("GET failed", code=OTHER_REGION), "export AWS_REGION=", False),
        (b"[]", "pulumi up", True),
        (b"{}", "pulumi up", True),
        (StoreMissingError("it does not exist"), "pulumi stack output pipeline_uri", True),
        (answered("403 <Code>AccessDenied</Code>"), "pulumi stack output | grep submitter", True),
        (answered("403 <Code>RequestTimeTooSkewed</Code>"), "sudo timedatectl set-ntp true", False),
    ],
)
def test_a_descriptor_that_cannot_be_read(monkeypatch, answer, command, owner):
    monkeypatch.setattr(site_module, "_open", lambda uri, region=None: Answering(answer))
    with pytest.raises((CallerError, CloudError)) as caught:
        site_module.read_site("s3://bucket/pipeline.json")
    found = doctor._descriptor_fault(caught.value)
    assert (found.check, found.verdict, found.owner) == ("descriptor", "fault", owner)
    assert found.command.startswith(command)


# ---- store and fleet -------------------------------------------------------------------------------------------------


def test_a_good_store_is_left_with_one_small_object():
    store = Store.open("memory://")
    for _ in range(2):
        (found,) = doctor.store_findings(store)
        assert found.verdict == "ok"
    assert list(store.list("")) == [layout.DOCTOR_PROBE]


class Broken(Store):
    """A store that misbehaves in one way."""

    def __init__(self, how):
        self._real, self._how = Store.open("memory://"), how
        self.uri = "s3://bucket"

    def put(self, name, data, size=0, *, media_type=""):
        if isinstance(self._how, Exception):
            raise self._how
        self._real.put(name, b"other" if self._how == "reads otherwise" else data)

    def get(self, name):
        return self._real.get(name)

    def create(self, name, data):
        if self._how == "no create":
            raise CallerError("store is s3://bucket, which is not allowed")
        created = self._real.create(name, data)
        return created._replace(ours=True) if self._how == "overwrites" else created


@pytest.mark.parametrize(
    ("how", "words", "command"),
    [
        ("reads otherwise", "reads otherwise than it was written", "tidemill doctor"),
        ("overwrites", "has no conditional create", "pulumi up"),
        ("no create", "store is s3://bucket", "pulumi up"),
        (StoreDeniedError("AccessDenied"), "may not be written", "pulumi stack output | grep submitter"),
        (StoreError("no answer"), "no answer", "tidemill doctor"),
        (answered("<Code>RequestTimeTooSkewed</Code>"), "clock is wrong", "sudo timedatectl set-ntp true"),
    ],
)
def test_a_store_that_cannot_hold_jobs(how, words, command):
    (found,) = doctor.store_findings(Broken(how))
    assert (found.verdict, found.command) == ("fault", command)
    assert words in found.detail


def test_what_machines_say_is_shown_newest_first(monkeypatch):
    """Only the shown records are read, out of thousands."""
    store = Store.open("memory://")
    ages = {f"{layout.FLEET_ERRORS}/m-{hours}.json": hours for hours in (1, 2, 3, 4, *range(24, 2000))}
    entries = [Entry(name, 1, time.time() - 3600 * hours) for name, hours in ages.items()]
    read = []

    def find(name):
        read.append(name)
        return json.dumps({"error": f"trying\npull failed {ages[name]}"}).encode()

    monkeypatch.setattr(store, "entries", lambda prefix: iter(entries))
    monkeypatch.setattr(store, "find", find)
    found = list(doctor.fleet_findings(store))
    details = [finding.detail for finding in found]
    assert details == ["m-1: pull failed 1", "m-2: pull failed 2", "m-3: pull failed 3", "1 more machines"]
    assert ({finding.verdict for finding in found}, len(read)) == ({"fault"}, 3)


def test_what_a_machine_wrote_as_it_came_is_shown_too():
    store = Store.open("memory://")
    store.put(f"{layout.FLEET_ERRORS}/raw", b"no clock\nno disk\n")
    assert [error.text() for error in machine_faults.fleet_errors(store)[0]] == ["raw: no disk"]


@pytest.mark.parametrize(
    ("uri", "command"),
    [
        ("s3://bucket/p", "aws s3 cp s3://bucket/p/fleet/errors/m -"),
        ("gs://bucket", "gcloud storage cat gs://bucket/fleet/errors/m"),
        ("file:///folder", "cat /folder/fleet/errors/m"),
    ],
)
def test_the_command_that_shows_a_record(uri, command):
    assert doctor.show_command(Store(None, uri), "fleet/errors/m") == command


# ---- the verb --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stack(installed):
    return installed()[1]


def test_the_verb_prints_a_line_a_check_and_a_command_a_fault(stack, capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["ok", "login:"], ["ok", "descriptor:"], ["ok", "store:"]]
    assert lines[-1] == "Everything is fine."
    stack.state = QueueState(False, False, "disabled, valid")
    assert main(["doctor"]) == 3
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("problem  queue cpu: disabled, valid")
    assert lines[at + 1].strip() == "the stack's owner types: pulumi up"
    assert lines[-1] == "2 problems found."


def test_the_verb_has_json(stack, capsys):
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is True
    assert list(said["checks"][0]) == ["check", "verdict", "detail", "command", "owner"]


def test_an_output_is_looked_at_where_the_stack_says_what_jobs_may_write(stack, capsys, tmp_path):
    def checked(output, writable, code):
        found = descriptor(f"file://{tmp_path}/store", writable=writable)
        (tmp_path / "store" / "pipeline.json").write_text(found.model_dump_json())
        assert main(["doctor", "--json", *(["--output", output] if output else [])]) == code
        checks = json.loads(capsys.readouterr().out)["checks"]
        return [(check["verdict"], check["command"]) for check in checks if check["check"] == "output"]

    mend = "pulumi config set --path 'tidemill:data.write[1]' s3://other/x/ && pulumi up"
    assert checked(None, None, 0) == []
    assert checked("s3://features/x", None, 0) == []
    assert checked("s3://features/x", ["s3://features/"], 0) == [("ok", "")]
    assert checked("s3://other/x", ["s3://features/"], 3) == [("fault", mend)]
