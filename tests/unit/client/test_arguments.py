"""Arguments of another kind than a call takes, from Python: each is named, and none is an error inside."""

import re
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill.client import Pipeline
from tidemill.client.arguments import indexes
from tidemill.client.sending.train import training
from tidemill.errors import CallerError
from tidemill.request import JobRequest

COMMAND = ["cat", "{input}"]
here: Any = Pipeline.local
"""Called as an editor would not have it."""
WRONG = {
    "command": (lambda p: p.submit("cat {input}", uris(1), queue="cpu"), "command is 'cat {input}'; it must be a list"),
    "word": (lambda p: p.submit(["sleep", 1], uris(1), queue="cpu"), "command[1] is 1; it must be a text. Write '1'."),
    "queue": (lambda p: p.submit(COMMAND, uris(1), queue=3), "There is no queue 3 in this pipeline, which has: cpu"),
    "keyword": (
        lambda p: p.submit(COMMAND, uris(1), quue="cpu"),
        "`submit` has no setting 'quue'. Did you mean 'queue'? It has: after, ",
    ),
    "keyword of a dry run": (lambda p: p.preview(COMMAND, uris(1), memori="2G"), "`preview` has no setting 'memori'."),
    "keyword of a training": (lambda p: p.train(COMMAND, swep={"lr": [1]}), "`train` has no setting 'swep'. Did you"),
    "keyword of a submit": (
        lambda p: p.train(COMMAND, items="x"),
        "`train` has no setting 'items'. Did you mean 'sweep'? It has: ",
    ),
    "a keyword of another library": (
        lambda p: p.submit(COMMAND, uris(1), retries=3),
        "`submit` has no setting 'retries'. Did you mean 'attempts'? It has: ",
    ),
    "a name that is none": (lambda p: p.train(COMMAND, options=3), "`train` has no setting 'options'. It has: "),
    "a setting of state": (
        lambda p: p.submit(COMMAND, uris(1), from_job="x"),
        "`submit` has no setting 'from_job'. It goes into `state`: state={'from_job': ...}. It has: ",
    ),
    "its earlier name": (
        lambda p: p.submit(COMMAND, uris(1), snapshot_every=9),
        "`submit` has no setting 'snapshot_every'. It goes into `state`: state={'snapshot_seconds': ...}. It has: ",
    ),
    "sweep": (lambda p: p.train(COMMAND, "lr=1"), "sweep is 'lr=1'; it must be a dict. Write {'lr': [1e-3, 3e-4]}."),
    "no items": (lambda p: p.submit(COMMAND, queue="cpu"), "`submit`: missing a required argument: 'items'."),
    "env": (lambda p: p.submit(COMMAND, uris(1), queue="cpu", env=["A=1"]), "env is ['A=1']; it must be a dict."),
    "inputs": (
        lambda p: p.submit(COMMAND, uris(1), queue="cpu", inputs=["m/"]),
        "inputs is ['m/']; it must be a dict.",
    ),
    "max_usd": (lambda p: p.submit(COMMAND, uris(1), queue="cpu", max_usd="5"), "max_usd is '5'; it must be in USD"),
    "after": (lambda p: p.submit(COMMAND, uris(1), queue="cpu", after=3), "after is 3; it must be a list of ids"),
    "a single job": (lambda p: p.submit(COMMAND, uris(1), queue="cpu", after="a"), "after is 'a'; it must be a list"),
    "job": (lambda p: p.job(None), "job is None; it must be a job's id"),
    "retry": (lambda p: p.submit(COMMAND, uris(1), queue="cpu").retry(items="0"), "items is '0'; it must be a list of"),
    "memory of a retry": (
        lambda p: p.submit(COMMAND, uris(1), queue="cpu").retry(memory="512G"),
        "memory is given, and this pipeline's workers read job specs up to version 1; it needs 8.",
    ),
    "index": (lambda p: p.submit(COMMAND, uris(1), queue="cpu").retry(items=["0"]), "items is '0'; it must be from 0"),
    "estimate": (lambda p: p.estimate(10, item_time="5x", queue="cpu"), "item_time is '5x'; it must be a time such as"),
    "sizes of an estimate": (
        lambda p: p.estimate(10, item_time=5, queue="cpu", memory="2G", memory_mib=512),
        "memory and memory_mib are both given.",
    ),
    "keyword of an estimate": (
        lambda p: p.estimate(10, memori="2G"),
        "`estimate` has no setting 'memori'. Did you mean ",
    ),
    "keyword of advice": (lambda p: p.advise(cpu=4), "`advise` has no setting 'cpu'. Did you mean 'cpus'?"),
    "size of advice": (lambda p: p.advise(memory="2 cows"), "memory is '2 cows'; it must be a size such as"),
    "keyword of a list": (
        lambda p: p.jobs(limt=3),
        "`jobs` has no setting 'limt'. Did you mean 'limit'? It has: limit, log, name,",
    ),
    "keyword of a constructor": (
        lambda p: here(worker=2),
        "`local` has no setting 'worker'. Did you mean 'wor",
    ),
    "workers": (
        lambda p: here(workers="2"),
        "workers is '2'; it must be a whole number of at least 1",
    ),
    "folder": (
        lambda p: p.submit(COMMAND, uris(1), queue="cpu").fetch(None),
        "folder is None; it must be the path of a folder.",
    ),
    "folder of logs": (
        lambda p: p.submit(COMMAND, uris(1), queue="cpu").download_logs(""),
        "folder is ''; it must be the path of a folder.",
    ),
    **{
        f"keyword of {verb}": (
            lambda p, verb=verb, given=given: getattr(p.submit(COMMAND, uris(1), queue="cpu"), verb)(**{given: 1}),
            f"`{verb}` has no setting {given!r}. Did you mean {meant!r}? It has: ",
        )
        for verb, given, meant in (
            ("results", "failed", "failed_only"),
            ("values", "return_exception", "return_exceptions"),
            ("status", "runing", "running"),
            ("logs", "itme", "item"),
            ("fetch", "overwite", "overwrite"),
            ("wait", "pol_seconds", "poll_seconds"),
            ("retry", "item", "items"),
        )
    },
    "since": (
        lambda p: list(p.submit(COMMAND, uris(1), queue="cpu").logs(since="2h")),
        "since is '2h'; it must be a datetime. Write ",
    ),
    "fetch": (
        lambda p: p.submit(COMMAND, uris(1), queue="cpu").fetch(Path("x"), items="0-9"),
        "items is '0-9'; it must be a list of indexes",
    ),
}


@pytest.mark.parametrize(("call", "said"), WRONG.values(), ids=WRONG)
def test_another_kind_is_named(call, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target, _ = pipeline()
    with pytest.raises(CallerError) as refused:
        call(target)
    assert str(refused.value).startswith(said)
    assert not list(tmp_path.iterdir())


def test_an_editor_sees_every_keyword_of_a_submit():
    names = [field.name for field in fields(JobRequest)]
    for verb in (Pipeline.submit, Pipeline.preview):
        assert list(signature(verb).parameters) == ["self", *names]
    assert list(signature(Pipeline.train).parameters) == ["self", *signature(training).parameters]


@pytest.mark.parametrize(
    ("given", "memory"), [({"memory": "4G"}, 4096), ({"memory": 512}, 512), ({"memory_mib": 512}, 512)]
)
def test_an_estimate_takes_sizes_and_times_as_a_submit_does(given, memory):
    target, _ = pipeline()
    job = target.submit(COMMAND, uris(1), queue="cpu", memory_mib=1024)
    for like in (None, job.id):
        found = target.estimate(10, item_time="2m", queue="cpu", like=like, **given)
        assert found.item_seconds == 120
        assert found == target.estimate(10, item_seconds=120, queue="cpu", memory_mib=memory, like=like)


def test_a_missing_argument_is_of_the_method():
    fetch: Any = pipeline()[0].submit(COMMAND, uris(1), queue="cpu").fetch
    with pytest.raises(TypeError, match=re.escape("Job.fetch(): missing a required argument: 'folder'")):
        fetch()


def test_numbers_of_numpy_are_indexes():
    numpy = pytest.importorskip("numpy")
    found = indexes(numpy.array([3, 1, 3]), 4)
    assert (found, {type(index) for index in found}) == ([1, 3], {int})


@pytest.mark.parametrize(
    ("given", "memory", "timeout"),
    [
        ({"memory": "2G", "timeout": "2h"}, 2048, 7200),
        ({"memory": 512, "timeout": 90}, 512, 90),
        ({"memory_mib": "1.5G", "timeout_seconds": "1.5m"}, 1536, 90),
        ({"memory_mib": 512.0, "timeout_seconds": 90}, 512, 90),
    ],
)
def test_sizes_and_times_are_written_as_on_the_command_line(given, memory, timeout):
    target, _ = pipeline(max_spec=4)
    spec = target.submit(["work", "{uri}"], ["a"], queue="cpu", **given).spec
    assert (spec.resources.memory_mib, spec.timeout_seconds) == (memory, timeout)
    trained = target.train(["work", "{lr}"], {"lr": [1]}, queue="cpu", state=False, item_time="1m", **given)
    assert trained.spec.timeout_seconds == timeout
