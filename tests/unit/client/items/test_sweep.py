"""Sweeps and `train`, over a pipeline in memory. What this cannot prove: that a program learns anything."""

import json

import pytest

from tests.unit.client_fakes import ARN, descriptor, pipeline, queue
from tidemill import layout
from tidemill.cli import main
from tidemill.cli.job_options import rehearsed
from tidemill.client import Pipeline
from tidemill.client.items.sweep import Sweep, parse_hyperparameters, parse_sweep, read_rows
from tidemill.descriptor import SPEC_VERSION, Image, Rung
from tidemill.errors import CallerError
from tidemill.job import Item, JobSpec
from tidemill.ledger.documents import UnreadableError
from tidemill.manifest import read_chunk
from tidemill.placeholders import fill, meta_values
from tidemill.state import Snapshots
from tidemill.tree import Tree, TreeFile
from tidemill.worker.programs import sagemaker

PROGRAM = ["python3", "train.py", "--lr", "{lr}", "{print $1}", "{output}"]


def test_a_sweep_is_every_combination_in_order():
    sweep = Sweep(parse_sweep(["lr=1e-3,3e-4", "seed=0..4..2"]), hyperparameters={"epochs": "90"})
    items = list(sweep)
    assert len(sweep) == len(items) == 6
    assert [item.index for item in items] == list(range(6))
    assert items[1] == Item(1, "lr=1e-3,seed=2", {"epochs": "90", "lr": "1e-3", "seed": 2})
    assert [item.meta["seed"] for item in items if item.meta] == [0, 2, 4] * 2


def test_a_range_has_both_ends_and_may_go_down():
    assert parse_sweep(["a=3..1", "b=-1..1", "c=x,2..3"]) == {
        "a": range(3, 0, -1),
        "b": range(-1, 2),
        "c": ["x", 2, 3],
    }


def test_what_does_not_vary_is_one_item():
    assert list(Sweep()) == [Item(0, "training", None)]
    assert list(Sweep(hyperparameters={"lr": 0.1})) == [Item(0, "lr=0.1", {"lr": 0.1})]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        (
            "a.csv",
            '\ufefflr,net\n1e-3,vit\n3e-4,"a, b"\n',
            [{"lr": "1e-3", "net": "vit"}, {"lr": "3e-4", "net": "a, b"}],
        ),
        ("a.jsonl", '{"lr": 0.5, "x": true}\n\n{"x": false, "lr": 1}', [{"lr": 0.5, "x": True}, {"x": False, "lr": 1}]),
    ],
)
def test_a_list_of_combinations(tmp_path, name, text, rows):
    (tmp_path / name).write_text(text)
    assert read_rows(tmp_path / name) == rows
    assert len(Sweep({"seed": range(3)}, rows=rows)) == 6


BAD = {
    "no value": (["--sweep", "lr="], "sweep.lr"),
    "an empty value": (["--sweep", "lr=1,,2"], "sweep.lr"),
    "no name": (["--sweep", "=1"], "--sweep"),
    "no equals sign": (["--sweep", "lr"], "--sweep"),
    "a value twice": (["--sweep", "lr=1,2,1"], "sweep.lr"),
    "a name twice": (["--sweep", "lr=1", "--sweep", "lr=2"], "--sweep"),
    "a name in both": (["--sweep", "lr=1", "--hp", "lr=2"], "sweep"),
    "names that differ in case": (["--sweep", "lr=1", "--hp", "LR=2"], "sweep"),
    "a placeholder's name": (["--sweep", "output=1,2"], "hyperparameter"),
    "the name of the code": (["--hp", "code=1"], "hyperparameter"),
    "a name with a space": (["--hp", "a b=1"], "hyperparameter"),
    "a constant without a value": (["--hp", "lr="], "hyperparameters.lr"),
    "a million combinations": (["--sweep", "a=1..1000", "--sweep", "b=1..1000"], "sweep"),
    "a range without end": (["--sweep", "a=0..999999999999999"], "sweep"),
    "such a range in a list": (["--sweep", "a=x,0..999999999999999"], "sweep"),
    "a step of nothing": (["--sweep", "a=0..9..0"], "--sweep"),
    "a line break": (["--hp", "a=1\n2"], "hyperparameters.a"),
    "a list that is not there": (["--sweep-file", "nothing.csv"], "sweep"),
    "a list without rows": (["--sweep-file", "header.csv"], "sweep"),
    "a short row": (["--sweep-file", "short.csv"], "sweep"),
    "a column twice": (["--sweep-file", "twice.csv"], "sweep"),
    "an empty field": (["--sweep-file", "gap.csv"], "sweep.lr"),
    "a line that is not JSON": (["--sweep-file", "broken.jsonl"], "sweep"),
    "a line that is not an object": (["--sweep-file", "list.jsonl"], "sweep"),
    "rows of other names": (["--sweep-file", "mixed.jsonl"], "sweep"),
    "a nested value": (["--sweep-file", "nested.jsonl"], "sweep.lr"),
    "a list in Latin-1": (["--sweep-file", "latin.csv"], "sweep"),
    "a tag without a value": (["--tag", "project"], ""),
    "a metric without an expression": (["--metric", "loss"], ""),
    "snapshots of nothing": (["--no-state", "--snapshot-every", "5m"], ""),
    "the state of a job that is not there": (["--from-state", "vit"], "job"),
    "state to begin with, and none": (["--from-state", "vit", "--no-state"], ""),
    "a queue here": (["--here", "--queue", "cpu"], ""),
    "a rehearsal that does nothing": (["--here", "--dry-run"], ""),
    "reclaims in a cloud": (["--reclaim-every", "9s"], ""),
}
LISTS = {
    "header.csv": "lr\n",
    "short.csv": "lr,seed\n1\n",
    "twice.csv": "lr,lr\n1,2\n",
    "gap.csv": "lr,seed\n,1\n",
    "broken.jsonl": "{",
    "list.jsonl": "[1]",
    "mixed.jsonl": '{"lr": 1}\n{"rate": 1}',
    "nested.jsonl": '{"lr": [1]}',
}


@pytest.fixture
def stack(tmp_path, monkeypatch, installed):
    """A pipeline in a folder, and its queue."""
    installed(max_spec=SPEC_VERSION)
    for name, text in LISTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.csv").write_bytes("lr\n\xe9\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_refused_before_anything_is_made(stack, capsys, case):
    options, what = BAD[case]
    queue = [] if "--here" in options else ["--queue", "cpu"]
    assert main(["train", *queue, "--json", *options, "--", "python3", "-m", "train"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (error["what"] or "") == what
    assert error["fix"], err
    assert [path.name for path in stack.iterdir()] == ["pipeline.json"]


@pytest.mark.parametrize(
    ("verb", "typed", "words"),
    [
        ("train", "--lr", ["--hp lr=VALUE", "after `--`"]),
        ("train", "--reclaim-evry", ["'--reclaim-every'", "--hp reclaim-evry=VALUE"]),
        ("submit", "--itms", ["'--items'"]),
    ],
)
def test_an_option_of_the_program_before_the_dashes_is_told_where_it_goes(stack, capsys, verb, typed, words):
    assert main([verb, "--queue", "cpu", typed, "0.1", "--", "python3", "train.py"]) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in words), said
    assert ("--hp" in said) == (verb == "train")


def test_train_is_a_job_with_an_item_per_combination(stack, capsys):
    assert main(["train", "--queue", "cpu", "--name", "grid", "--json", "--sweep", "lr=1e-3,3e-4", "--", *PROGRAM]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["items"], made["chunks"], made["chunk_size"]) == (2, 2, 1)
    spec = JobSpec.model_validate_json((stack / "jobs" / made["job"] / "job.json").read_text())
    assert (spec.spec_version, spec.placeholders, spec.layout) == (4, ["lr"], "sagemaker")
    assert (spec.timeout_seconds, spec.stages_input) == (7 * 86_400, False)
    assert spec.state is not None


def test_a_training_is_previewed_with_what_it_would_take(stack, capsys):
    typed = [
        "train",
        "--queue",
        "cpu",
        "--json",
        "--sweep",
        "lr=1,2,3",
        "--dry-run",
        "--item-time",
        "2h",
        "--",
        *PROGRAM,
    ]
    assert main(typed) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["items"], found["chunks"], found["chunk_size"]) == (3, 3, 1)
    assert found["estimate"]["core_hours"] == pytest.approx(6, rel=0.1)
    assert [path.name for path in stack.iterdir()] == ["pipeline.json"]


def test_state_to_begin_with_must_be_there():
    target, _ = pipeline(max_spec=SPEC_VERSION)
    plain = target.train(["p"], queue="cpu", state=False)
    empty = target.train(["p"], queue="cpu")
    for job in (plain, empty):
        with pytest.raises(CallerError) as raised:
            target.train(["p"], queue="cpu", state={"from_job": job.id})
        assert raised.value.what == "state.from_job"


def test_items_are_paired_by_what_they_are():
    """The other job must have each of them, in any order."""
    target, _ = pipeline(max_spec=SPEC_VERSION)
    sent = {"queue": "cpu", "state": True}
    first = target.train(["p"], {"lr": ["1e-3", "3e-4"]}, name="first", **sent)
    snapshots = Snapshots(target.store, first.id, 0)
    snapshots.claim("a", 0, "", None)
    snapshots.commit(Tree((TreeFile("x", 1, None, "o"),)))
    begin = {**sent, "state": {"from_job": first.id}}
    assert target.train(["p"], {"lr": ["3e-4", "1e-3"]}, name="again", **begin).spec.items_total == 2
    with pytest.raises(CallerError) as raised:
        target.train(["p"], {"lr": ["1e-3", "1e-4"]}, name="other", **begin)
    assert str(raised.value).splitlines()[0] == (
        f"state.from_job is {first.id!r}, and 1 item of 2 is not in it with the same metadata, such as 'lr=1e-4'. "
        "Give items of that job, in any order, or name one of them for all: "
        f"state={{'from_job': {first.id!r}, 'from_item': 0}}."
    )
    assert target.train(["p"], {"lr": ["1e-5"]}, name="third", queue="cpu", state=begin["state"] | {"from_item": 0})


def test_train_without_state_and_of_a_function(stack, capsys):
    def sent(*options):
        assert main(["train", "--queue", "cpu", "--json", *options]) == 0
        job = json.loads(capsys.readouterr().out)["job"]
        return JobSpec.model_validate_json((stack / "jobs" / job / "job.json").read_text())

    for options in (["--no-state", "--", *PROGRAM], ["--", "json:loads"]):
        spec = sent(*options)
        assert (spec.state, spec.timeout_seconds) == (None, 86_400)
    kept = sent("--snapshot-every", "5m", "--", *PROGRAM).state
    assert kept is not None
    assert kept.snapshot_seconds == 300


def test_the_same_name_and_settings_are_the_same_job_and_force_makes_another():
    target, backend = pipeline(max_spec=SPEC_VERSION)

    def train(values, **options):
        return target.train(PROGRAM, {"lr": values}, queue="cpu", name="grid", **options)

    first = train([1, 2])
    backend.run(target, first.id)
    said = []
    assert train([1, 2], log=said.append).id == first.id
    assert f"{first.id} already exists: 2 of 2 items are done." in said
    other = train([1, 2], force=True)
    assert other.id not in (first.id, train([1, 3]).id)
    assert train([1, 2]).id == other.id
    assert train([1, 2], force=True).id not in (first.id, other.id)


def test_another_image_makes_another_job():
    target, backend = pipeline()

    def submit(ref):
        images = {"default": Image(ref=ref, job_definition=f"{ARN}:job-definition/cpu-default:1")}
        made = Pipeline(descriptor(queues={"cpu": queue(images=images)}), target.store, backend)
        return made.submit(["p", "{uri}"], ["a"], queue="cpu", name="tiles")

    first, second = submit("r@sha256:1"), submit("r@sha256:2")
    assert first.id == "tiles-64ea9377" != second.id
    assert (submit("r@sha256:2").id, submit("r@sha256:1").id) == (second.id, first.id)
    assert submit("mirror/r@sha256:1").id == first.id, "a mirror of its registry has the same image"
    assert submit("mirror/r:1").id not in (first.id, submit("r:1").id)
    # A spec of an older version does not say which image it was.
    spec = first.spec.model_dump(mode="json") | {"image_ref": None}
    target.store.put(layout.spec(first.id), json.dumps(spec).encode())
    assert submit("r@sha256:3").id == first.id


def test_a_job_that_older_workers_know_keeps_its_id():
    """The id is that of version 0.1: the same command after an upgrade finds the job that it made before."""
    target, _ = pipeline(max_spec=SPEC_VERSION)
    assert target.submit(["p", "{uri}"], ["a"], queue="cpu", name="tiles").id == "tiles-64ea9377"


def test_an_older_stack_is_told():
    target, _ = pipeline(max_spec=3)
    with pytest.raises(CallerError, match="up to version 3, this one is of 4") as raised:
        target.train(PROGRAM, {"lr": [1]}, queue="cpu")
    assert "leave `items` and `state` out" in raised.value.fix


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["p", "{input}"], "combinations, not files"),
        (["p", "{rate}", "{seeds}"], "Did you mean 'seed'?"),
        (["sh", "-c", "train --seed {seed}"], "is code for sh"),
    ],
)
def test_a_command_that_names_something_else_is_refused(command, says):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    with pytest.raises(CallerError) as raised:
        target.train(command, {"seed": [1, 2]}, queue="cpu")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("command", "remarks"),
    [
        (["p"], ["{state}"]),
        (["p", "{state}"], []),
        (["sh", "-c", 'p "$SSM_INSTANCE_STATE"'], []),
        (["p", "{x}"], ["{x}", "{state}"]),
    ],
)
def test_what_a_training_may_lack_is_said(command, remarks):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    said = []
    target.train(command, {"lr": [1, 2]}, queue="cpu", name="n", log=said.append)
    assert [next(word for word in remarks if word in line) for line in said if "{" in line] == remarks


@pytest.mark.parametrize(
    ("market", "options", "said_so"),
    [
        ("spot", {"state": False}, True),
        ("spot", {"state": False, "item_seconds": 60}, False),
        ("spot", {"state": False, "timeout_seconds": 3600}, False),
        ("spot", {}, False),
        ("on_demand", {"state": False}, False),
    ],
)
def test_long_items_that_keep_nothing_on_spot_are_told_what_a_reclaim_costs(market, options, said_so):
    queues = {"cpu": queue(capacity=[Rung(market=market, max_cpus=64)])}
    target, _ = pipeline(max_spec=SPEC_VERSION, queues=queues)
    said = []
    target.train(PROGRAM, queue="cpu", log=said.append, **options)
    assert any("begin anew" in line and "`state=True`" in line for line in said) is said_so


def test_values_fill_a_command_once_and_other_braces_stay():
    target, _ = pipeline(max_spec=SPEC_VERSION)
    job = target.train(["p", "{a}", "{b}", "x{a}{other}"], {"a": ["{b}{uri}"], "b": [0.5]}, queue="cpu")
    (item,) = read_chunk(target.store, job.id, 0)
    values = meta_values(job.spec, item)
    assert fill(job.spec.command or [], {**values, "uri": "no"}, values) == ["p", "{b}{uri}", "0.5", "x{b}{uri}{other}"]


def test_programs_for_sagemaker_find_their_variables(tmp_path):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    sweep = Sweep({"lr": ["1e-3"]}, hyperparameters=parse_hyperparameters(["batch-size=8", "note=NaN", "big=1e999"]))
    job = target.train(["p", "{lr}"], sweep, queue="cpu")
    (item,) = read_chunk(target.store, job.id, 0)
    (tmp_path / "config").mkdir()
    folders = sagemaker.Folders(tmp_path / "output", tmp_path / "config", "/state", {"train": "/data/train"})
    found = sagemaker.prepare(job.spec, item, folders)
    assert json.loads(found["SM_HPS"]) == {"lr": 0.001, "batch-size": 8, "note": "NaN", "big": "1e999"}
    assert found["SM_HP_LR"] == "1e-3"
    assert found["SM_HP_BATCH_SIZE"] == found["SM_HP_BATCH-SIZE"] == "8"
    assert found["SM_CHANNEL_TRAIN"] == "/data/train"
    assert found["SSM_INSTANCE_STATE"] == "/state"
    assert found["SM_MODEL_DIR"] == str(tmp_path / "output" / "model")
    assert json.loads(found["SM_TRAINING_ENV"])["hyperparameters"]["lr"] == 0.001
    assert json.loads((tmp_path / "config" / "hyperparameters.json").read_text())["lr"] == "1e-3"
    assert (tmp_path / "output" / "data").is_dir()


@pytest.mark.parametrize(
    ("reclaims", "typed", "saved"),
    [(None, {}, None), (5, {}, 1), (40, {}, 8), (600, {}, 60), (5, {"snapshot_seconds": 9}, 9)],
)
def test_a_rehearsal_saves_several_times_before_each_reclaim(reclaims, typed, saved):
    assert rehearsed({"state": typed}, reclaims)["state"].get("snapshot_seconds") == saved
    assert rehearsed({"state": False}, reclaims) == {"state": False}


def test_the_state_of_a_job_that_a_newer_tidemill_has_made_is_refused():
    target, backend = pipeline(max_spec=SPEC_VERSION)
    name = layout.spec(target.train(PROGRAM, queue="cpu", name="vit").id)
    target.store.put(name, json.dumps(json.loads(target.store.get(name)) | {"spec_version": 99}).encode())
    with pytest.raises(UnreadableError, match="update this one"):
        target.train(PROGRAM, queue="cpu", name="tuned", state={"from_job": "vit"})
    assert [found for found in target.store.list("jobs") if found.endswith("/job.json")] == [name]
    assert len(backend.arrays) == 1


@pytest.mark.parametrize("option", ["changed", "new"])
def test_a_larger_sweep_runs_the_combinations_that_are_new(stack, capsys, option):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    first = target.train(PROGRAM, {"lr": [1, 2]}, queue="cpu", name="grid")
    backend.run(target, first.id)
    second = target.train(PROGRAM, {"lr": [1, 2, 3]}, queue="cpu", name="grid", **{option: True})
    assert second.spec.shared is not None
    assert second.spec.shared.jobs == {first.id: 2}
    typed = ["train", "--queue", "cpu", "--name", "grid", "--sweep", "lr=1,2", f"--{option}", "--", *PROGRAM]
    assert main(typed) == 0
    assert "2 items: no outcome of an earlier job stands, so all of them run." in capsys.readouterr().err
