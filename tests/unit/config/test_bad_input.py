"""Wrong stack configs: each gives one line with the key, its value, the allowed values and what to do.

They prove what we refuse, not that AWS accepts the rest.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from components.config import ConfigError, StackConfig, from_file, parse
from ops.check import problems
from tests.fields import about
from tests.unit.config.examples import CASES, GOOD, GOOD_ON_GCP, built, changed, without

SECRET = "hf_notARealTokenButLooksLikeOne"
ARN = "arn:aws:secretsmanager:us-west-2:123456789012:secret:s-AbCdEf"


def many(queues: int, **changes: Any) -> dict[str, Any]:
    return changed("queues", {f"q{number}": GOOD["queues"]["cpu"] | changes for number in range(queues)})


@pytest.mark.parametrize("good", [GOOD, GOOD_ON_GCP], ids=["aws", "gcp"])
def test_the_good_config_is_good(good: dict[str, Any]):
    assert isinstance(parse(good), StackConfig)


@pytest.mark.parametrize("case", CASES, ids=[case["wrong"] for case in CASES])
def test_one_line_with_key_value_allowed_and_what_to_do(case: dict[str, Any]):
    with pytest.raises(ConfigError) as caught:
        parse(built(case))
    error = caught.value
    assert error.what == case["key"]
    fields = case["fields"]
    assert fields["value"] in error.value
    assert fields.get("allowed", "") in error.allowed
    assert error.fix
    assert fields.get("hint", "") in error.fix
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (
            changed("queues.cpu.item.cpus", 0),
            "tidemill:queues.cpu.item.cpus: 0 is not allowed. Allowed: 1 or more. ",
        ),
        (without("queues"), "tidemill:queues is missing; it is required. "),
        (
            changed("environmnt", "dev", without("environment")),
            "tidemill:environmnt is not a known key. Did you mean 'environment'?",
        ),
    ],
    ids=["value", "missing", "unknown"],
)
def test_an_error_is_one_line_of_its_fields(config: dict[str, Any], line: str):
    assert str(refusal(config)).startswith(line)


def test_bad_configs_are_many_and_each_once():
    assert len(CASES) >= 40 + 25
    assert len([case for case in CASES if case.get("cloud") == "gcp"]) >= 25
    assert len({case["wrong"] for case in CASES}) == len(CASES)


def test_a_secret_is_never_shown():
    with pytest.raises(ConfigError) as caught:
        parse(changed("queues.cpu.secrets", {"HF_TOKEN": SECRET}))
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__context__)


def test_fifty_queues_are_the_most():
    assert len(parse(many(50)).queues) == 50
    with pytest.raises(ConfigError, check=about("tidemill:queues", allowed="50")):
        parse(many(51))


def test_more_queues_and_images_than_policies_can_name():
    images = {f"i{number}": f"docker.io/team/image@sha256:{64 * '0'}" for number in range(19)} | GOOD["queues"]["cpu"][
        "images"
    ]
    assert parse(many(6, images=images))
    with pytest.raises(ConfigError, check=about("tidemill:queues", "147 queues and images, for which", "6 policies")):
        parse(many(7, images=images))


def test_more_rungs_than_batch_has_compute_environments():
    rungs = [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 64}]
    with pytest.raises(ConfigError, check=about("tidemill:queues", "52 rungs", "50")):
        parse(many(26, capacity=rungs))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, "it cannot be read: No such file"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "it is not UTF-8"),
        (lambda path: path.write_text("config: [unclosed"), "line 1: expected"),
        (lambda path: path.write_text("- a list"), "it has no `config:`"),
        (lambda path: path.write_text("config:\n  a: 1\n b: 2\n"), "line 3: "),
        (lambda path: path.write_text("config:\n\ta: 1\n"), "line 2: "),
        (lambda path: path.write_text("config:\n  a: 1\n  b: 2\n  a: 3\n"), "line 4: the key `a` is there twice"),
        (lambda path: path.write_text("config: {}\nconfig: {}\n"), "line 2: the key `config` is there twice"),
        (
            lambda path: path.write_text("config: {q: {images: {default: x, default: y}}}"),
            "line 1: the key `default` is there twice",
        ),
        (lambda path: path.write_text("config: &a {b: *c}"), "line 1: found undefined alias"),
        (
            lambda path: path.write_text("config: !!python/object:os.system {}"),
            "line 1: could not determine",
        ),
        (lambda path: path.write_text("config: [a, b]"), "it has no `config:`"),
        (lambda path: path.write_text("config: {'tidemill:team': 'x y'}"), "tidemill:team"),
    ],
    ids=[
        "missing",
        "not UTF-8",
        "not YAML",
        "not a mapping",
        "a wrong indent",
        "a tab",
        "a key twice",
        "config twice",
        "a key twice in one line",
        "an unknown anchor",
        "a tag",
        "a list of keys",
        "wrong value",
    ],
)
def test_a_stack_file_that_cannot_be_read(tmp_path: Path, write: Callable[[Path], Any], words: str):
    path = tmp_path / "Pulumi.x.yaml"
    write(path)
    with pytest.raises(ConfigError, match=words) as caught:
        from_file(path)
    assert "\n" not in str(caught.value)


def test_a_stack_file_is_read(tmp_path: Path):
    path = tmp_path / "Pulumi.x.yaml"
    settings = {f"tidemill:{key}": value for key, value in GOOD.items()}
    path.write_text(json.dumps({"config": {"aws:region": "us-west-2", **settings}}))
    assert from_file(path) == parse(GOOD)


@pytest.mark.parametrize("case", CASES[::60], ids=[case["wrong"] for case in CASES[::60]])
def test_checking_the_file_says_that_line_alone(case: dict[str, Any], tmp_path: Path):
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(yaml.safe_dump({"config": {f"tidemill:{key}": value for key, value in built(case).items()}}))
    (line,) = problems([path])
    assert line.startswith(f"Pulumi.x.yaml: {case['key']}")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        "team",
        "network",
        "network.create",
        "data",
        "data.read",
        "store",
        "logs",
        "access",
        "allow",
        "queues",
        "queues.cpu",
        "queues.cpu.images",
        "queues.cpu.item",
        "queues.cpu.machines",
        "queues.cpu.machines.cpus",
        "queues.cpu.machines.families",
        "queues.cpu.capacity",
        "queues.cpu.capacity.0",
        "queues.cpu.secrets",
        "queues.cpu.ulimits",
        "queues.cpu.mounts",
        "queues.cpu.aws",
        "queues.cpu.gcp",
        "queues.cpu.gcp.idle_minutes",
        "network.existing",
        "registry",
        "cloud",
    ]
)


def refusal(config: dict[str, Any]) -> str | None:
    try:
        parse(config)
    except ConfigError as error:
        return str(error)
    return None


@settings(max_examples=300, deadline=None)
@given(PATHS, ANYTHING, st.sampled_from([GOOD, GOOD_ON_GCP]))
def test_whatever_stands_there_is_right_or_one_line(path: str, value: Any, good: dict[str, Any]):
    line = refusal(changed(path, value, good))
    assert line is None or (line.startswith("tidemill:") and len(line.splitlines()) == 1)


def test_a_key_that_is_no_word_stays_on_the_line():
    line = refusal(changed("store", {"a\nb": 1}))
    assert line is not None
    assert line.startswith('tidemill:store."a\\nb" is not a known key')
