"""`python -m ops queue` on stack files. tests/engine/test_lifecycle.py shows what `--up` does."""

import difflib
import re

import pytest
from click.testing import CliRunner

from components.config import from_file
from ops import project, stack_files
from ops.queue import queue

DIGEST = "docker.io/a/b@sha256:" + 64 * "0"
REPOSITORIES = {"cpu": "preprocess", "gpu": "embed", "big": "assemble"}
FILE = """\
# yaml-language-server: $schema=schema.json
# The vision team.
config:
  aws:region: 'us-west-2'   # close to the data
  tidemill:team: "vision"
  tidemill:environment: dev

  tidemill:access:
    submitters:
      - "arn:aws:iam::123456789012:role/vision"
  tidemill:queues:
    cpu:   # the first one
      images: {default: "registry://preprocess:1.4.0"}   # pinned
      item: {cpus: 1, memory_mib: 2048}
      # twice the night's work
      capacity: [{market: spot, max_cpus: 64}]

    # Models of 12 GB.
    gpu:
      images:
        default: registry://embed:2
      item: {cpus: 4, memory_mib: 14000, gpus: 1}
      machines: {families: [g5], cpus: {min: 4, max: 8}}
      # end of gpu
    # Big memory.
    big:
      images: {default: "registry://assemble:1"}
  # Kept until the move.
  tidemill:store: {expire_jobs_after_days: 90}
encryptionsalt: v1:abc
"""


@pytest.fixture
def stacks(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "STACKS", tmp_path)
    (tmp_path / "Pulumi.vision-dev.yaml").write_text(FILE)
    return tmp_path


@pytest.fixture
def path(stacks):
    return stacks / "Pulumi.vision-dev.yaml"


def run(*arguments):
    done = CliRunner().invoke(queue, [arguments[0], "--stack", "vision-dev", *arguments[1:]])
    return done.exit_code, " ".join(done.output.split()), done.output


def changed(path):
    """The changed lines, without those around them."""
    lines = difflib.ndiff(FILE.splitlines(), path.read_text().splitlines())
    return [line for line in lines if line[0] in "+-"]


def test_a_queue_is_added_behind_the_others_and_nothing_else_changes(path):
    code, _, output = run("add", "docs", "images.default=registry://ocr:5", "item.memory_mib=1500", "scratch_gib=20")
    assert code == 0, output
    assert changed(path) == [
        "+     docs:",
        '+       images: {default: "registry://ocr:5"}',
        "+       item: {memory_mib: 1500}",
        "+       scratch_gib: 20",
    ]
    assert "+++ stacks/Pulumi.vision-dev.yaml" in output
    assert '+      images: {default: "registry://ocr:5"}' in output
    assert "Next: make review STACK=vision-dev" in output
    assert from_file(path).queues["docs"].item.memory_mib == 1500


def test_a_queue_is_added_behind_the_comments_of_the_one_before(path):
    text = FILE[: FILE.index("    # Big memory.")].rstrip("\n")
    path.write_text(text)  # no end of line at the end
    code, _, output = run("add", "night", "images.default=registry://a:1")
    assert code == 0, output
    assert path.read_text() == text + '\n    night:\n      images: {default: "registry://a:1"}\n'


@pytest.mark.parametrize(
    ("setting", "lines"),
    [
        (
            "capacity[0].max_cpus=128",
            [
                "-       capacity: [{market: spot, max_cpus: 64}]",
                "+       capacity: [{market: spot, max_cpus: 128}]",
            ],
        ),
        (
            "capacity[1]={market: on_demand, max_cpus: 32}",
            [
                "-       capacity: [{market: spot, max_cpus: 64}]",
                "+       capacity: [{market: spot, max_cpus: 64}, {market: on_demand, max_cpus: 32}]",
            ],
        ),
        # What the file leaves out is begun.
        ("machines.families[0]=c7i", ["+       machines: {families: [c7i]}"]),
        ("mounts.m={host: /mnt/disks/m, path: /mnt/m}", ["+       mounts: {m: {host: /mnt/disks/m, path: /mnt/m}}"]),
        ("machines.families=[c7i, m7i]", ["+       machines: {families: [c7i, m7i]}"]),
        ("item=null", ["-       item: {cpus: 1, memory_mib: 2048}"]),
        (
            "capacity=null",
            ["-       # twice the night's work", "-       capacity: [{market: spot, max_cpus: 64}]"],
        ),
        (
            "item.memory_mib=null",
            ["-       item: {cpus: 1, memory_mib: 2048}", "+       item: {cpus: 1}"],
        ),
        (
            f'images.old="{DIGEST}"',
            [
                '-       images: {default: "registry://preprocess:1.4.0"}   # pinned',
                '+       images: {default: "registry://preprocess:1.4.0", old: "docker.io/a/b@sha256:'
                + "0" * 64
                + '"}',
            ],
        ),
    ],
)
def test_one_key_is_set_and_nothing_else_changes(path, setting, lines):
    code, _, output = run("set", "cpu", setting)
    assert code == 0, output
    # A comment behind a longer line moves.
    plain = [re.sub(r"(?<=[}\]]) +#.*", "", line) for line in (*changed(path), *lines) if line[0] != "?"]
    assert plain[: len(lines)] == plain[len(lines) :]


def test_a_rung_is_set_where_the_file_leaves_the_ladder_out(path):
    assert run("set", "cpu", "capacity=null")[0] == 0
    code, _, output = run("set", "cpu", "capacity[0].max_cpus=96")
    assert code == 0, output
    assert "+       capacity: [{max_cpus: 96}]" in changed(path)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("cpu", ["cpu:", "images:", "item:", "# twice", "capacity:", ""]),
        ("gpu", ["# Models", "gpu:", "images:", "default:", "item:", "machines:", "# end of gpu"]),
        ("big", ["# Big memory.", "big:", "images:"]),
    ],
)
def test_a_queue_goes_with_its_comments_and_leaves_the_others_theirs(path, name, lines):
    code, said, output = run("remove", name)
    assert code == 0, output
    *lost, kept = changed(path)
    gone = [line[2:].strip() for line in lost]
    assert all(line.startswith("-") for line in lost)
    assert kept == f"+   tidemill:registry: {{repositories: [{REPOSITORIES[name]}]}}"
    assert len(gone) in (len(lines), len(lines) - 1)
    for line in gone:
        assert any(line.startswith(start) for start in lines)
    assert name not in from_file(path).queues
    assert "set tidemill:allow: [replace] and run `pulumi up` once" in said


@pytest.mark.parametrize(
    ("registry", "kept"),
    [
        ("", "tidemill:registry: {repositories: [preprocess]}"),
        ("  tidemill:registry: {keep_images: 5}\n", "tidemill:registry: {keep_images: 5, repositories: [preprocess]}"),
        ("  tidemill:registry: {repositories: [old]}\n", "tidemill:registry: {repositories: [old, preprocess]}"),
    ],
)
def test_another_image_keeps_the_repository_of_the_one_before(path, registry, kept):
    """The engine would stop there: the repository is protected, with the images in it."""
    path.write_text(FILE.replace("encryptionsalt", f"  # tidemill:registry: {{}}\n{registry}encryptionsalt"))
    code, said, output = run("set", "cpu", "images.default=registry://embedder:1.0.0")
    assert code == 0, output
    assert kept in path.read_text()
    assert "No image uses the repository preprocess any more. tidemill:registry.repositories keeps it" in said
    assert "keeps it" not in run("set", "cpu", "images.default=registry://embedder:2.0.0")[1], "another tag"


def test_nothing_is_said_of_protection_where_replacing_is_allowed(path):
    path.write_text(FILE.replace("encryptionsalt", "  tidemill:allow: [replace]\nencryptionsalt"))
    code, said, _ = run("remove", "gpu")
    assert code == 0
    assert "protected" not in said


def test_a_rehearsal_writes_nothing(path):
    code, said, _ = run("set", "cpu", "scratch_gib=50", "--dry-run")
    assert code == 0
    assert "+ scratch_gib: 50" in said
    assert path.read_text() == FILE


def test_what_is_so_already_is_said(path):
    code, said, _ = run("set", "cpu", "item.cpus=1")
    assert code == 0
    assert "stacks/Pulumi.vision-dev.yaml is unchanged" in said
    assert path.read_text() == FILE


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "cpu", "images.default=registry://a:1"], "has this queue already; `queue set` changes it"),
        (["add", "docs"], "a queue needs an image"),
        (["add", "docs", "scratch_gib=20"], "a queue needs an image"),
        (["add", "Docs", "images.default=registry://a:1"], "tidemill:queues.Docs: "),
        (["add", "docs", "images.default=a:1"], 'tidemill:queues.docs.images.default: "a:1"'),
        (["set", "cpu"], "Missing argument 'KEY=VALUE...'"),
        (["set", "cpy", "scratch_gib=20"], "no such queue. Queues: cpu, gpu, big."),
        (["set", "cpu", "scratch_gib"], "is not KEY=VALUE"),
        (["set", "cpu", "=20"], "is not KEY=VALUE"),
        (["set", "cpu", "scratch_gib="], "is not KEY=VALUE"),
        (["set", "cpu", "scratch_gib=[20"], "the value is not valid YAML"),
        (["set", "cpu", "scratch_gib=2027-02-30"], "the value is not valid YAML: day is out of range"),
        (["set", "cpu", "scratch_gib=many"], 'tidemill:queues.cpu.scratch_gib: "many"'),
        (["set", "cpu", "scratch_gb=20"], "Did you mean 'scratch_gib'?"),
        (["set", "cpu", "capacity[2].max_cpus=20"], "capacity.2: there is nothing at 2"),
        (["set", "cpu", "scratch_gib=null"], "there is nothing at 'scratch_gib'"),
        (["set", "cpu", "images=null"], "tidemill:queues.cpu.images is missing; it is required"),
        (["set", "cpu", "item.cpus.more=1"], "there is nothing at 'more'"),
        (["set", "gpu", "item.gpus=0"], "either families with GPUs and an item with item.gpus"),
        (["remove", "cpy"], "no such queue. Queues: cpu, gpu, big."),
        (["remove", "gpu", "--up"], "run `pulumi up` once"),
    ],
)
def test_what_is_wrong_is_one_clear_error_and_the_file_stays(path, arguments, says):
    code, said, _ = run(*arguments)
    assert code == 2, said
    assert says in said
    assert path.read_text() == FILE
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_the_last_queue_stays(path):
    for name in ("gpu", "big"):
        assert run("remove", name)[0] == 0
    before = path.read_text()
    code, said, _ = run("remove", "cpu")
    assert code == 2
    assert "this is the last queue of vision-dev" in said
    assert path.read_text() == before


def test_a_file_that_somebody_else_has_written_meanwhile_stays_theirs(path, monkeypatch):
    edited = stack_files.edited

    def slow(*arguments):
        texts = edited(*arguments)
        path.write_text(FILE + "# theirs\n")
        return texts

    monkeypatch.setattr(stack_files, "edited", slow)
    code, said, _ = run("set", "cpu", "scratch_gib=50")
    assert code == 1
    assert "changed meanwhile" in said
    assert path.read_text() == FILE + "# theirs\n"


@pytest.mark.parametrize("path", sorted((project.ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_the_committed_stacks_come_out_as_they_went_in(path):
    before, after = stack_files.edited(path, lambda config: None)
    assert after == before == path.read_text()


def test_without_pulumi_on_path_it_says_what_to_install(path, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    code, said, _ = run("set", "cpu", "scratch_gib=50", "--up")
    assert code == 2
    assert "https://www.pulumi.com/docs/install" in said
    # The file has the requested change; a later `pulumi up` applies it.
    assert from_file(path).queues["cpu"].scratch_gib == 50
