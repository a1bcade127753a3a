"""Every example of the SDK's docstrings, run on a pipeline in memory. What this cannot prove: a cloud's answers."""

import doctest
import inspect
import json
import os

import pytest

import tidemill
from tests.unit.client_fakes import outcome, pipeline, ran, uris
from tidemill.client import Job, Pipeline
from tidemill.client.housekeeping import Housekeeping
from tidemill.client.rounds import deliveries
from tidemill.client.secrets import PersonalSecrets
from tidemill.client.templates import Templates
from tidemill.clouds.account import LogLine
from tidemill.descriptor import SPEC_VERSION
from tidemill.ledger import Ledger
from tidemill.secrets.local import LocalSecrets

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
INTERNAL = {"backend"}
"""What the SDK's other half calls."""


def public(kind):
    """Methods and properties of a class that people call, by name."""
    return {
        f"{kind.__name__}.{name}": getattr(value, "fget", None) or getattr(value, "__func__", value)
        for each in reversed(kind.__mro__[:-1])
        for name, value in vars(each).items()
        if not name.startswith("_") and name not in INTERNAL
        if inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod, property))
    }


EXAMPLES = {"tidemill": tidemill, "Pipeline": Pipeline, "Job": Job, "Sweep": tidemill.Sweep}
EXAMPLES |= (
    public(Pipeline) | public(Job) | public(Housekeeping) | public(Templates) | {"PersonalSecrets": PersonalSecrets}
)


@pytest.fixture
def world(patch_time, monkeypatch, tmp_path):
    """The world of an example: a pipeline, and a finished job of three items, one of them failed."""
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    made, backend = pipeline(max_spec=SPEC_VERSION)
    backend.secret_store = LocalSecrets()
    job = made.submit(["python3", "features.py", "{input}", "{output}"], uris(3), queue="cpu", name="tiles")
    outcomes = [outcome(n, f"s3://raw/{n}.jpg", failed=n == 1) for n in range(3)]
    for chunk in range(job.spec.chunks_total):
        of_chunk = [o for o in outcomes if o.index // job.spec.chunk_size == chunk]
        Ledger(made.store, job.id).chunk(0, chunk).commit("a", of_chunk, run=ran())
    for array in backend.arrays:
        array.children = ["succeeded"] * len(array.children)
    container = f"{backend.names[0]}:{1 // job.spec.chunk_size}"
    for message in ("opening s3://raw/1.jpg", "ValueError: no"):
        fields = {"job": job.id, "item": 1, "attempt": 1, "stream": "stderr", "message": message}
        backend.lines.append(LogLine(job.spec.created_at.timestamp() + 1, json.dumps(fields), container, fields))
    made.templates.save("nightly", ["tile", "{uri}"], ["s3://raw/{time:%Y/%m/%d}/a.jpg"], queue="cpu")
    monkeypatch.setattr(Pipeline, "load", classmethod(lambda cls, uri: made))

    def work(seconds):
        """Let the workers work whenever an example waits."""
        for name in set(backend.names):
            backend.run(made, name.rpartition("-r")[0])

    patch_time(sleep=work)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.txt").write_text("\n".join(uris(3)))
    return {"tidemill": tidemill, "Pipeline": Pipeline, "pipeline": made, "job": job, "os": os}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_is_true(name, world):
    if name == "Job.to_pandas":
        pytest.importorskip("pandas")
    found = doctest.DocTestFinder(recurse=False).find(EXAMPLES[name], name, globs=world)
    (test,) = [one for one in found if one.examples] or pytest.fail(f"{name} has no example")
    said = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert not result.failed, "".join(said)
