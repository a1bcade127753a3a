"""Defaults and documentation of the config, the schema for editors, and the table of machines."""

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
import yaml
from jsonschema import Draft202012Validator
from moto.ec2.models.instance_types import INSTANCE_TYPES
from pydantic import BaseModel

from components import machines, schema
from components.aws import refresh_machines
from components.aws.registry import external_repositories
from components.config import (
    ConfigError,
    GcpQueueOptions,
    Queue,
    Rung,
    StackConfig,
    from_file,
    parse,
    repository_of,
)
from components.config.load import _filled
from components.images import own_repositories
from tests.unit.config.examples import CASES, built
from tidemill import machines as every
from tidemill.machines.catalog import DATA

IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"
ROOT = schema.FILE.parent.parent


def test_a_stack_on_aws_needs_four_keys():
    config = parse({"team": "t", "environment": "e", "queues": {"cpu": {"images": {"default": IMAGE}}}})
    cpu = config.queues["cpu"]
    assert [(rung.market, rung.max_cpus) for rung in cpu.capacity] == [("spot", 256)]
    assert config.store.expire_jobs_after_days is None
    assert not config.may_replace
    assert not config.may_purge


@pytest.mark.parametrize(("allow", "replace", "purge"), [(["replace"], True, False), (["purge"], True, True)])
def test_purging_includes_replacing(allow: list[str], replace: bool, purge: bool):
    config = parse({"team": "t", "environment": "e", "queues": {"q": {"images": {"default": IMAGE}}}, "allow": allow})
    assert (config.may_replace, config.may_purge) == (replace, purge)


def fields(model: type[BaseModel], seen: set[type]) -> Iterator[tuple[str, Any]]:
    seen.add(model)
    for name, field in model.model_fields.items():
        yield f"{model.__name__}.{name}", field
        for inner in _models(field.annotation):
            if inner not in seen:
                yield from fields(inner, seen)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models(part)]


def test_every_key_has_a_default_but_the_few_that_cannot():
    required = {name for name, field in fields(StackConfig, set()) if field.is_required()}
    assert required == {
        "Arrival.prefix",
        "Arrival.template",
        "Budget.monthly_usd",
        "Budget.notify",
        "Mount.path",
        "Proxy.url",
        "Queue.images",
        "Schedule.cron",
        "Schedule.template",
        "StackConfig.environment",
        "StackConfig.queues",
        "StackConfig.team",
        "Waiver.reason",
        "Waiver.rule",
        "Waiver.until",
    }


def test_the_project_declares_every_key_with_the_models_words():
    declared = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    names = {name.removeprefix("tidemill:") for name in declared}
    # A key without a default may be declared only if it must be set.
    assert names == set(StackConfig.model_fields) - {
        "budget",
        "certificates",
        "permission_boundary",
        "proxy",
        "worker_image",
        "worker_image_arm64",
    }
    for name, declaration in declared.items():
        field = StackConfig.model_fields[name.removeprefix("tidemill:")]
        assert ("default" in declaration) is not field.is_required(), name
        assert declaration["description"]


def test_the_schema_for_editors_is_fresh():
    assert schema.FILE.read_text(encoding="utf-8") == schema.text(), "run: python -m components.schema"


VALIDATOR = Draft202012Validator(schema.schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def as_json(content: Any) -> Any:
    """What a YAML file says, with its dates as an editor sees them."""
    return json.loads(json.dumps(content, default=str))


def test_the_schema_accepts_the_committed_stacks_and_refuses_unknown_keys():
    paths = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
    assert len(paths) == 11
    for path in paths:
        content = yaml.safe_load(path.read_text())
        VALIDATOR.validate(as_json(content))
        from_file(path)
        content["config"]["tidemill:netwrok"] = {}
        assert not VALIDATOR.is_valid(as_json(content))


def refused_by_the_models(values: dict[str, Any]) -> bool:
    try:
        StackConfig.model_validate(_filled(values))
    except pydantic.ValidationError:
        return True
    return False


def test_the_schema_refuses_whatever_the_models_refuse_without_the_rules_between_keys():
    places = {"aws:region": "us-west-2", "gcp:project": "vision-dev", "gcp:region": "us-central1"}
    refused = 0
    for case in CASES:
        values = built(case)
        if refused_by_the_models(values):
            refused += 1
            content = as_json({"config": places | {f"tidemill:{key}": value for key, value in values.items()}})
            assert not VALIDATOR.is_valid(content), case["wrong"]
    assert refused > 60


def test_stack_files_name_their_schema():
    for path in (ROOT / "stacks").glob("Pulumi.*.yaml"):
        assert path.read_text().startswith("# yaml-language-server: $schema=schema.json\n")


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("registry://preprocess:1.4.0", "preprocess"),
        ("registry://pre-process@sha256:" + 64 * "a", "pre-process"),
        ("docker.io/team/preprocess@sha256:" + 64 * "a", None),
    ],
)
def test_the_repository_of_an_image(image: str, repository: str | None):
    assert repository_of(image) == repository


def test_repositories_of_a_stack():
    ecr = "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/base@sha256:" + 64 * "a"
    config = parse(
        {
            "team": "t",
            "environment": "e",
            "registry": {"repositories": ["later"]},
            "queues": {"q": {"images": {"default": "registry://a:1", "b": "registry://a:2", "c": ecr, "d": IMAGE}}},
        }
    )
    assert own_repositories(config) == ["a", "later"]
    assert external_repositories(config) == ["arn:aws-cn:ecr:cn-north-1:123456789012:repository/base"]


def test_the_table_is_dated_and_says_where_it_is_from():
    found = every.table("aws")
    assert found.as_of >= datetime.date(2026, 1, 1)
    assert "DescribeInstanceTypes" in found.source


def test_a_refresh_keeps_what_ec2_tells_of_a_machine_and_guesses_nothing():
    known = {name: every.find("aws", name) for name in ("g5.4xlarge", "p5.48xlarge", "g6f.xlarge", "c7g.medium")}
    assert known["g5.4xlarge"] == every.MachineType(
        "g5.4xlarge", 16, 65536, 1, "x86_64", None, "A10G", 22888, 10.0, 25.0, 0, 1, 558, cards=1
    )
    large, part, small = (known[name] for name in ("p5.48xlarge", "g6f.xlarge", "c7g.medium"))
    assert large is not None
    assert part is not None
    assert small is not None
    # 32 cards of 100 Gbps; eight disks of 3800 GB.
    assert (large.network_gbps, large.gpus, large.disks, large.disk_gib) == (3200.0, 8, 8, 3539)
    assert (large.efas, large.efa, large.cards, large.markets) == (32, True, 32, ("on_demand", "spot", "block"))
    assert [machine.neurons for machine in every.families("aws")["inf2"]] == [1, 1, 6, 12]
    assert (part.gpus, part.gpu_memory_mib) == (1, 2861)
    assert (small.architecture, small.gpu_name, small.disks, small.disk_gib) == ("arm64", None, 0, None)
    bare = {
        key: INSTANCE_TYPES["c7g.medium"][key] for key in ("InstanceType", "VCpuInfo", "MemoryInfo", "ProcessorInfo")
    }
    (unknown,) = refresh_machines.rows([bare])
    assert unknown == every.MachineType("c7g.medium", 1, 2048, 0, "arm64")


def test_a_refresh_writes_the_same_table(tmp_path):
    path = tmp_path / "machines.json"
    count = machines.write(refresh_machines.rows(INSTANCE_TYPES.values()), "a test", path)
    written = json.loads(path.read_text())
    assert count == len(written["machines"])
    assert {**written, "as_of": "", "source": ""} == {
        **json.loads((DATA / "aws.json").read_text()),
        "as_of": "",
        "source": "",
    }


@pytest.mark.parametrize(
    ("families", "low", "high", "types"),
    [
        (["c6i"], 2, 4, ["c6i.large", "c6i.xlarge"]),
        (["m6i", "c6i"], 2, 2, ["c6i.large", "m6i.large"]),
        (["g5"], 4, 8, ["g5.xlarge", "g5.2xlarge"]),
        (["c6i"], 5, 7, []),
    ],
)
def test_families_and_sizes_become_types(families: list[str], low: int, high: int, types: list[str]):
    assert [machine.type for machine in machines.select("aws", families, low, high)] == types


@pytest.mark.parametrize("until", [2, 20])
@pytest.mark.parametrize("form", ["{}", "{} 00:00:00 +0000 UTC"])
def test_a_waivers_day_is_read_as_a_stack_file_and_as_the_engine_writes_it(until, form):
    day = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(until)
    waiver = {"rule": "aws-s3-bucket-closed", "reason": "Waits for the data team"}
    for given in (form.format(day), day):
        config = parse(
            {
                "team": "t",
                "environment": "e",
                "queues": {"cpu": {"images": {"default": IMAGE}}},
                "waivers": [waiver | {"until": given}],
            }
        )
        assert config.waivers[0].until == day
        assert parse(config.model_dump(exclude_unset=True)) == config


QUEUE = {"images": {"default": "registry://preprocess:1"}}


def test_a_config_written_in_code_is_completed_and_checked_like_a_file():
    written = StackConfig(team="vision", environment="dev", cloud="gcp", queues={"cpu": Queue.model_validate(QUEUE)})
    stored = {"team": "vision", "environment": "dev", "cloud": "gcp", "queues": {"cpu": QUEUE}}
    assert parse(written).model_dump() == parse(stored).model_dump()
    assert parse(written).queues["cpu"].machines.families == ["n2", "n2d", "c3d"]
    assert not written.is_checked
    assert parse(again := parse(written)) is again
    wrong = StackConfig(
        team="vision", environment="dev", queues={"cpu": Queue.model_validate({**QUEUE, "gcp": GcpQueueOptions()})}
    )
    told = {**stored, "cloud": "aws", "queues": {"cpu": {**QUEUE, "gcp": {}}}}
    messages = set()
    for values in (wrong, told):
        with pytest.raises(ConfigError) as error:
            parse(values)
        messages.add(str(error.value))
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("model", "keys", "what", "allowed"),
    [
        (Rung, {"max_cpus": 0}, "Rung.max_cpus", "1 or more"),
        (Rung, {"max_cpu": 4}, "Rung.max_cpu", "the keys market, max_cpus"),
        (Queue, {**QUEUE, "capacity": [{"market": "sport"}]}, "Queue.capacity[0].market", "'spot'"),
        (Queue, {}, "Queue.images", "a value"),
    ],
)
def test_a_mistake_in_code_names_the_model_and_its_key(model, keys, what, allowed):
    with pytest.raises(ConfigError) as error:
        model(**keys)
    assert error.value.what == what
    assert error.value.allowed.startswith(allowed)
