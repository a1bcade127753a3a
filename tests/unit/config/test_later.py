"""Keys whose values come from another resource: plain ones are checked at once, outputs when they are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pulumi
import pytest
from pulumi.output import Unknown

from components.config import ConfigError, ExistingNetwork, Rung, StackConfig, parse
from components.pipeline import Pipeline, PipelineArgs
from tests.components.recording import Recorder, run, run_with

IMAGES = {"images": {"default": "registry://preprocess:1"}}
RIGHT = {
    "network.existing.vpc_id": "vpc-12345678",
    "network.existing.subnet_ids": "subnet-12345678",
    "store.kms_key": "arn:aws:kms:us-west-2:123456789012:key/a-b",
    "permission_boundary": "arn:aws:iam::123456789012:policy/boundary",
    "monitoring.topic": "arn:aws:sns:us-west-2:123456789012:oncall",
}


def config(key: str, value: Any) -> dict[str, Any]:
    """A stack's keys with one of them set, on AWS."""
    existing: dict[str, Any] = {"vpc_id": "vpc-12345678", "subnet_ids": ["subnet-12345678"]}
    keys: dict[str, Any] = {"team": "t", "environment": "e", "queues": {"cpu": IMAGES}}
    if key.startswith("network"):
        keys["network"] = {"existing": {**existing, key.rpartition(".")[2]: value}}
    elif "." in key:
        section, _, name = key.partition(".")
        keys[section] = {name: value}
    else:
        keys[key] = value
    return keys


def found(config: StackConfig, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def read(key: str, value: Any) -> list[Any]:
    """A key's value once it is known; nothing of one that is not."""
    seen: list[Any] = []

    def program() -> None:
        found(parse(config(key, pulumi.Output.from_input(value))), key).apply(seen.append)

    run(program, preview=True)
    return seen


@pytest.mark.parametrize("key", RIGHT)
def test_an_output_is_checked_when_it_is_known(key: str) -> None:
    several = key.endswith("subnet_ids")
    right = [RIGHT[key]] if several else RIGHT[key]
    assert read(key, right) == [right]
    assert read(key, Unknown()) == []
    with pytest.raises(ConfigError) as error:
        read(key, ["nonsense"] if several else "nonsense")
    assert error.value.what == f"tidemill:{key}"
    assert "'nonsense' is not allowed. Allowed: " in str(error.value)


def test_a_plain_value_is_checked_at_once() -> None:
    for key in RIGHT:
        wrong = "nonsense" if not key.endswith("subnet_ids") else ["nonsense"]
        with pytest.raises(ConfigError) as error:
            parse(config(key, wrong))
        assert error.value.what.startswith(f"tidemill:{key}")


def test_a_list_may_have_outputs_among_plain_values() -> None:
    def program() -> None:
        subnets = ["subnet-12345678", pulumi.Output.from_input("subnet-87654321")]
        assert len(found(parse(config("network.existing.subnet_ids", subnets)), "network.existing.subnet_ids")) == 2
        with pytest.raises(ConfigError, match="once"):
            parse(config("network.existing.subnet_ids", ["subnet-12345678", "subnet-12345678"]))

    run(program)


@pytest.mark.parametrize("key", ["team", "environment", "worker_image", "registry.keep_images"])
def test_what_decides_stays_plain(key: str) -> None:
    def program() -> None:
        with pytest.raises(ConfigError) as error:
            parse(config(key, pulumi.Output.from_input("x")))
        assert error.value.what == f"tidemill:{key}"
        assert "an output of another resource" in error.value.value

    run(program)


class Made(pulumi.ComponentResource):
    """A resource of a program."""

    def __init__(self) -> None:
        super().__init__("test:index:Made", "lab")


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (
            lambda: Rung(max_cpus=pulumi.Output.from_input(4)),  # type: ignore[arg-type]
            "Allowed: a whole number that is known before anything is made. Write it down;",
        ),
        (
            lambda: ExistingNetwork(vpc_id=Made()),  # type: ignore[arg-type]
            "the resource lab is not allowed. Allowed: a text. Give an output of the resource,",
        ),
        (
            lambda: parse({**config("store.kms_key", KEY), "network": ExistingNetwork()}),
            "tidemill:network: an object ExistingNetwork is not allowed. Allowed: an object Network.",
        ),
        (
            lambda: parse(None),  # type: ignore[arg-type]
            "PipelineArgs.config: null is not allowed. Allowed: a StackConfig, or a mapping of its keys.",
        ),
        (
            lambda: Pipeline("vision-dev", StackConfig.model_construct()),  # type: ignore[arg-type]
            "expected PipelineArgs or a mapping, not StackConfig",
        ),
    ],
)
def test_what_a_program_gives_by_mistake_is_told_in_a_sentence(give: Callable[[], Any], said: str) -> None:
    with pytest.raises(pulumi.RunError) as error:
        run(give)
    assert said in str(error.value)


def test_a_text_where_an_output_of_a_list_belongs_is_told_as_a_whole() -> None:
    with pytest.raises(ConfigError) as error:
        read("network.existing.subnet_ids", "subnet-12345678")
    assert str(error.value).startswith("tidemill:network.existing.subnet_ids: 'subnet-12345678' is not allowed.")


def test_an_error_never_shows_what_was_taken_for_a_secret() -> None:
    def program() -> None:
        queue = {**IMAGES, "secrets": {"TOKEN": pulumi.Output.from_input("hunter2")}}
        parse({"team": "t", "environment": "e", "queues": {"cpu": queue}})

    with pytest.raises(ConfigError) as error:
        run(program)
    assert "hunter2" not in str(error.value)
    assert "a text of 7 characters (not shown)" in str(error.value)


KEY = "arn:aws:kms:us-west-2:123456789012:key/a-b"
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:t-AbCdEf"
TOPIC, ROLE = "arn:aws:sns:us-west-2:123456789012:oncall", "arn:aws:iam::123456789012:role/vision"
EVERY: dict[str, Callable[[Callable[[Any], Any]], dict[str, Any]]] = {
    "aws": lambda given: {
        "registry": {"kms_key": given(KEY)},
        "network": {"existing": {"vpc_id": given("vpc-12345678"), "subnet_ids": given(["subnet-12345678"])}},
        "store": {"kms_key": given(KEY)},
        "logs": {"kms_key": given(KEY)},
        "data": {
            "read": ["s3://raw-images", given("s3://more/a/")],
            "write": [given("s3://features"), given("s3://more/b/")],
            "kms_keys": [given(KEY)],
        },
        "access": {"submitters": [given(ROLE)]},
        "permission_boundary": given("arn:aws:iam::123456789012:policy/boundary"),
        "monitoring": {"topic": given(TOPIC), "job_channels": {"oncall": given(TOPIC)}},
        "queues": {
            "cpu": {
                **IMAGES,
                "secrets": {"TOKEN": given(SECRET)},
                "mounts": {"old": {"efs": given("fs-12345678"), "path": "/mnt/old"}},
            }
        },
    },
    "gcp": lambda given: {
        "network": {
            "existing": {
                "network": given("projects/p1/global/networks/n"),
                "subnetwork": given("projects/p1/regions/us-central1/subnetworks/s"),
            }
        },
        "store": {"kms_key": given("projects/p1/locations/l/keyRings/r/cryptoKeys/k")},
        "logs": {"kms_key": given("projects/p1/locations/l/keyRings/r/cryptoKeys/k")},
        "registry": {"kms_key": given("projects/p1/locations/l/keyRings/r/cryptoKeys/k")},
        "monitoring": {"channels": [given("projects/p1/notificationChannels/1")]},
        "budget": {"monthly_usd": 9, "notify": ["a@example.com"], "billing_account": given("012345-6789AB-CDEF01")},
        "queues": {
            "cpu": {**IMAGES, "mounts": {"old": {"filestore": given("10.0.0.2:/vol"), "path": "/mnt/old"}}},
        },
    },
    "gcp with a file system": lambda given: {
        "file_systems": {
            "new": {"tier": "regional", "kms_key": given("projects/p1/locations/l/keyRings/r/cryptoKeys/k")}
        },
        "queues": {"cpu": {**IMAGES, "mounts": {"new": {"file_system": "new", "path": "/mnt/new"}}}},
    },
    "aws with a network of its own": lambda given: {
        "network": {"create": {"ipam_pool": given("ipam-pool-0123456789abcdef0")}},
        "file_systems": {"shared": {"kms_key": given(KEY)}},
        "queues": {"cpu": IMAGES},
    },
}


@pytest.mark.parametrize("case", EVERY)
def test_the_same_resources_come_of_plain_values_of_outputs_and_of_unknown_ones(case: str) -> None:
    def program(given: Callable[[Any], Any]) -> None:
        keys = {"team": "vision", "environment": "dev", "cloud": case[:3], **EVERY[case](given)}
        Pipeline("vision-dev", PipelineArgs(config=keys))

    made = []
    ways: list[Callable[[Any], Any]] = [
        lambda value: value,
        pulumi.Output.from_input,
        lambda _: pulumi.Output.from_input(Unknown()),
    ]
    for given in ways:
        recorder = run_with(Recorder(allotted="10.64.0.0/18"), partial(program, given), preview=True)
        # Archives are not compared: each is an object of its own.
        made.append({each.urn: {**each.inputs, "source": None} for each in recorder.resources})
    plain, known, unknown = made
    assert plain == known
    assert set(plain) == set(unknown)


@pytest.mark.parametrize(
    ("section", "keys", "what"),
    [
        ("access", {"submitters": ["group:vision@example.com"]}, "access.submitters[0]"),
        ("data", {"read": ["gs://raw-images"]}, "data.read[0]"),
        ("data", {"write": ["gs://features"]}, "data.write[0]"),
        ("monitoring", {"job_channels": {"oncall": "projects/p1/topics/oncall"}}, "monitoring.job_channels.oncall"),
    ],
)
def test_what_has_its_name_from_a_value_says_so(section: str, keys: dict[str, Any], what: str) -> None:
    def output(value: Any) -> Any:
        if isinstance(value, str):
            return pulumi.Output.from_input(value)
        named = {key: output(each) for key, each in value.items()} if isinstance(value, dict) else None
        return named or [output(each) for each in value]

    def program() -> None:
        with pytest.raises(ConfigError) as error:
            parse({**config(section, keys), section: output(keys), "cloud": "gcp"})
        assert error.value.what == f"tidemill:{what}"

    run(program)
