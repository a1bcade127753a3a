"""`python -m ops check` on stack files. tests/unit/config/bad_stack_configs.yaml has the wrong values."""

import datetime

import pulumi
import pulumi_aws
import pulumi_gcp
import pytest
from click.testing import CliRunner

from ops import project
from ops.check import check
from ops.provider_settings import SETTINGS

GOOD = """\
config:
  aws:region: us-west-2
  tidemill:team: vision
  tidemill:environment: dev
  tidemill:queues: {cpu: {images: {default: "registry://preprocess:1"}}}
"""


GCP = GOOD.replace("aws:region: us-west-2", "gcp:project: vision-dev\n  gcp:region: us-central1\n  tidemill:cloud: gcp")
SOON = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(2)
WAIVER = f"  tidemill:waivers: [{{rule: aws-s3-bucket-close, reason: It takes a while, until: {SOON}}}]\n"


@pytest.fixture
def stacks(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "STACKS", tmp_path)
    (tmp_path / "Pulumi.vision-dev.yaml").write_text(GOOD)
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(check, arguments)
    return done.exit_code, done.output


def test_the_committed_stacks_are_right():
    assert run() == (0, "All 11 stack files are valid.\n")


def test_a_key_whose_nothing_has_a_meaning_may_be_null(stacks):
    more = "  tidemill:monitoring: {notify: [a@example.com], full_hours: null}\n"
    more += "  tidemill:overrides: {some-resource: {property: null}}\n"
    (stacks / "Pulumi.vision-dev.yaml").write_text(f"{GOOD}{more}")
    assert run("vision-dev") == (0, "Pulumi.vision-dev.yaml is valid.\n")


def test_one_stack_is_named(stacks):
    (stacks / "Pulumi.wrong.yaml").write_text("config: [")
    assert run("vision-dev") == (0, "Pulumi.vision-dev.yaml is valid.\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (GOOD.replace("cpu:", "CPU:"), "tidemill:queues.CPU: "),
        (GOOD.replace("  aws:region: us-west-2\n", ""), "aws:region is missing; it is required, such as us-west-2."),
        (
            GOOD.replace("us-west-2", "us-west-2a"),
            'aws:region: "us-west-2a" is not allowed. Allowed: a region of AWS. It is a zone. Did you mean us-west-2?',
        ),
        (
            f"{GOOD}  tidemill:network:\n    shared:\n",
            "tidemill:network.shared: null is not allowed. Allowed: a value. Give it a value, or remove the key",
        ),
        (
            f"{GOOD}  tidemill:disks:\n    kms_key:\n",
            "tidemill:disks.kms_key: null is not allowed.",
        ),
        (
            GOOD.replace('"registry://preprocess:1"}', '"registry://preprocess:1"}, capacity: [{max_price_percent: }]'),
            "tidemill:queues.cpu.capacity[0].max_price_percent: null is not allowed.",
        ),
        (
            GOOD.replace('"registry://preprocess:1"}', '"registry://preprocess:1"}, machines: {zones: [c]}')
            + "  tidemill:network: {create: {zone_names: [a, us-west-2b]}}\n",
            'tidemill:queues.cpu.machines.zones[0]: "c" is not allowed.',
        ),
        (GOOD.replace("us-west-2", "2"), "aws:region: 2 is not allowed. Allowed: one such as us-west-2."),
        (GOOD.replace("us-west-2", ""), "aws:region: null is not allowed."),
        (GOOD.replace("us-west-2", "us-wset-2"), 'aws:region: "us-wset-2" is not allowed.'),
        (GCP.replace("us-central1", "us-centrel1"), 'gcp:region: "us-centrel1" is not allowed.'),
        (GOOD + "  tidemil:store: {}\n", "tidemil:store is not a known key. Did you mean 'tidemill:store'?"),
        (GOOD + "  store: {}\n", "store is not a known key. Did you mean 'tidemill:store'?"),
        (GOOD + "  aws:secretKey: hunter2\n", "aws:secretKey: a text of 7 characters (not shown) is not allowed."),
        (GCP + "  gcp:accessToken: ya29\n", "gcp:accessToken: a text of 4 characters (not shown) is not allowed."),
        (
            GOOD + "  aws:defaultTags: {CostCenter: a}\n",
            "aws:defaultTags.CostCenter is not a known key.",
        ),
        (
            GOOD + "  aws:assumeRoles: {roleArn: a}\n",
            '{"roleArn": "a"} is not allowed. Allowed: a list. Roles to',
        ),
        (
            GOOD + "  aws:assumeRoles: [{role_arn: a}]\n",
            "aws:assumeRoles[0].role_arn is not a known key. Did you mean 'roleArn'?",
        ),
        (GOOD + "  aws:ignoreTags: {prefixes: [a]}\n", "prefixes is not a known key. Did you mean 'keyPrefixes'?"),
        (GOOD + "  aws:allowedAccountIds: ['012']\n", 'aws:allowedAccountIds[0]: "012" is not allowed.'),
        (GCP + "  gcp:defaultLabels: {CostCenter: a}\n", 'gcp:defaultLabels: "CostCenter" is not allowed.'),
        (GOOD + WAIVER.replace(str(SOON), "2027-02-30"), 'until: "2027-02-30" is not allowed. Allowed: a day such as'),
        (GOOD.replace("cpu:", "2026-01-01:"), 'tidemill:queues.2026-01-01: "2026-01-01" is not allowed.'),
        (GOOD.replace('1"}}}', '1"}, capacity: [{max_cpus: 1,000}]}}'), "capacity[0].000 is not a known key."),
        (GOOD + "  tidemill:store:\n", "Give it a value, or remove the key: The job store."),
        (GOOD + f"  tidemill:overrides: {5000 * '['}\n", "it is nested too deeply"),
        (
            GOOD.replace('1"}', '1"}, machines: {zones: [us-east-1a]}'),
            "Allowed: zones of us-west-2, the stack's region. Name its letter, such as a.",
        ),
        (
            GOOD + "  tidemill:store: {kms_key: 'arn:aws:kms:eu-west-1:123456789012:key/a'}\n",
            "Allowed: what is in us-west-2, the stack's region.",
        ),
        (
            GOOD.replace(
                '1"}',
                '1"}, capacity: [{market: on_demand, max_cpus: 8, reservation: '
                "'arn:aws:resource-groups:eu-west-1:123456789012:group/held'}]",
            ),
            "Allowed: what is in us-west-2, the stack's region.",
        ),
        (
            GCP + "  tidemill:logs: {kms_key: projects/p/locations/eu/keyRings/r/cryptoKeys/k}\n",
            "Allowed: what is in us-central1, the stack's region.",
        ),
        (GOOD + "  tidemill:team: other\n", ": line 6: the key `tidemill:team` is there twice. Correct the file."),
        (GOOD + "  tidemill:cloud: gcp\n", "gcp:project is missing; it is required, such as vision-dev."),
        ("config:\n", "tidemill:team is missing; it is required."),
        ("config: [\n", ": line 2: "),
        (GOOD.replace("  tidemill:team", "\ttidemill:team"), "line 3: a tab; YAML is indented by spaces."),
        (GOOD.replace("}}}", "}}"), "while parsing a flow mapping that begins in line 5"),
        ("config: 3\n", "it has no `config:` with a mapping of keys to values"),
        (GOOD.replace("team: vision", "team: zoo"), 'tidemill:team: "zoo"'),
        (GOOD.replace("preprocess:1", "preprocess:latest"), "a tag that stays with one image"),
        (GOOD + WAIVER, "Allowed: a rule of docs/policies.md. Did you mean aws-s3-bucket-closed?"),
        (GOOD.replace("environment: dev", "environment: prod"), 'tidemill:environment: "prod" is not allowed.'),
        (GOOD + "  aws:profle: a\n", "aws:profle is not a setting of the aws provider. Did you mean aws:profile?"),
        (GOOD + "  aw:profile: a\n", "aw:profile: no provider is called aw. Did you mean aws:profile?"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(stacks, content, says):
    (stacks / "Pulumi.vision-dev.yaml").write_text(content)
    code, output = run("vision-dev")
    assert code == 2
    (line,) = output.splitlines()
    assert line.startswith("Pulumi.vision-dev.yaml: ")
    assert says in line


def test_settings_of_other_accounts_and_providers_are_valid(stacks):
    more = "  aws:assumeRoles: [{roleArn: a}]\n  aws:ignoreTags: {keyPrefixes: [a]}\n  datadog:apiUrl: x\n"
    (stacks / "Pulumi.vision-dev.yaml").write_text(GOOD + more)
    assert run("vision-dev")[0] == 0


def test_the_providers_settings_are_the_sdks():
    for cloud, sdk in (("aws", pulumi_aws), ("gcp", pulumi_gcp)):
        names = pulumi._types.input_type_py_to_pulumi_names(sdk.ProviderArgs).values()
        wanted = {name for name in names if not name.endswith("CustomEndpoint")}
        assert wanted <= set(SETTINGS[cloud])
        # Of earlier releases, which stack files may still have.
        assert set(SETTINGS[cloud]) - wanted <= {"disableGlobalProjectWarning", "skipRegionValidation"}


def test_two_files_of_one_pipeline_are_told_and_other_regions_are_not(stacks):
    (stacks / "Pulumi.vision-two.yaml").write_text(GOOD)
    (stacks / "Pulumi.vision-eu.yaml").write_text(GOOD.replace("us-west-2", "eu-west-1"))
    code, output = run()
    assert code == 2
    assert output == (
        "Pulumi.vision-two.yaml: tidemill:team: the pipeline vision-dev in us-west-2 is Pulumi.vision-dev.yaml already."
        " Allowed: each team and environment once per region. Rename one of them, or remove the file.\n"
    )
    code, output = run("vision-dev")
    assert code == 2
    assert "Pulumi.vision-dev.yaml: tidemill:team: the pipeline vision-dev in us-west-2 is Pulumi.vision-two" in output


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("cpu:", "dev:", "queues.dev"),
        ("cpu:", "big-dev:", "queues.big-dev"),
        ("{default:", "{dev: x, default:", "queues.cpu.images.dev"),
        ("team: vision", "team: data-dev", "team"),
    ],
)
def test_a_name_that_another_environments_permissions_cover_is_told(stacks, old, new, key):
    image = f"docker.io/team/i@sha256:{64 * '0'}"
    prod = GOOD.replace("environment: dev", "environment: prod").replace(old, new).replace(": x,", f": '{image}',")
    stack = "data-dev-prod" if key == "team" else "vision-prod"
    (stacks / f"Pulumi.{stack}.yaml").write_text(prod)
    code, output = run(stack)
    assert (code, output.count("\n")) == (2, 1)
    assert output.startswith(f"Pulumi.{stack}.yaml: tidemill:{key}: ")
    assert "a name without -dev-, an environment of these stacks" in output


def test_a_stack_that_is_not_there_is_the_callers_mistake(stacks):
    code, output = run("vision-prd")
    assert code == 2
    assert "there is no stacks/Pulumi.vision-prd.yaml. Did you mean vision-dev? Stacks: vision-dev." in output


def add(stacks, team: str, network: str) -> None:
    text = f"{GOOD.replace('team: vision', f'team: {team}')}  tidemill:network: {network}\n"
    (stacks / f"Pulumi.{team}-dev.yaml").write_text(text)


def test_networks_with_addresses_in_common_are_a_warning_that_names_both(stacks):
    add(stacks, "climate", "{create: {cidr: 10.4.0.0/16}}")
    add(stacks, "tiny", "{create: {cidr: 10.4.128.0/18}}")
    code, told = run("tiny-dev")
    assert code == 0
    assert told.startswith(
        "Pulumi.tiny-dev.yaml: warning: tidemill:network.create.cidr: 10.4.128.0/18 overlaps 10.4.0.0/16 of "
        "Pulumi.climate-dev.yaml."
    )
    assert run("vision-dev") == (0, "Pulumi.vision-dev.yaml is valid.\n")


@pytest.mark.parametrize(
    ("host", "meant"), [("gchr.io", "Did you mean ghcr.io?"), ("hub.docker.com", "Correct the host, or leave")]
)
def test_a_mirror_that_no_image_is_in_is_a_warning(stacks, host, meant):
    """The engine would pull from the public registry without a word."""
    image = f"ghcr.io/team/app@sha256:{64 * 'a'}"
    text = GOOD.replace("team: vision", "team: tiny").replace("registry://preprocess:1", image)
    assert image in text
    file = stacks / "Pulumi.tiny-dev.yaml"
    file.write_text(f"{text}  tidemill:mirrors: {{{host}: registry.example.com/ghcr}}\n")
    code, told = run("tiny-dev")
    assert code == 0
    assert told.startswith(
        f'Pulumi.tiny-dev.yaml: warning: tidemill:mirrors."{host}": no image of this stack is in {host}'
    )
    assert meant in told
    file.write_text(f"{text}  tidemill:mirrors: {{ghcr.io: registry.example.com/ghcr}}\n")
    assert run("tiny-dev") == (0, "Pulumi.tiny-dev.yaml is valid.\n")


def test_a_range_that_a_pool_or_another_network_gives_is_not_known(stacks):
    add(stacks, "climate", "{create: {cidr: 10.0.0.0/16}}")
    add(stacks, "tiny", "{create: {ipam_pool: ipam-pool-0123456789abcdef0}}")
    add(stacks, "mis", "{existing: {vpc_id: vpc-12345678, subnet_ids: [subnet-12345678]}}")
    assert "warning" not in run()[1]
