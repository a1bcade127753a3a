"""Other code for a round, where the job's function is of a session."""

import importlib
import sys

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill import layout
from tidemill.client.program import round_code
from tidemill.errors import CallerError


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """A function of a small module: what travels with it is packed for each job."""
    (tmp_path / "shop.py").write_text("def measure(uri): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    return importlib.import_module("shop").measure


def test_a_corrected_function_takes_the_place_of_the_jobs(measure):
    target, backend = pipeline(max_spec=6)
    for function, corrected in (
        (lambda uri: uri, lambda uri: uri + "x"),
        (lambda uri: uri, measure),
        (measure, measure),
    ):
        job = target.submit(None, uris(2), queue="cpu", function=function)
        sent = round_code.send(target.site, job.spec, corrected, (), lambda text: None)
        assert target.store.exists(layout.code(job.id, sent.sha256 or ""))
        assert (sent.sha256 != job.spec.code) is (function is not corrected)
    assert len(backend.arrays) == 3


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (None, "calls shop:measure, and machines find it by that name"),
        (["true", "{uri}"], "runs a command"),
    ],
)
def test_a_function_that_machines_would_not_find_is_refused(command, said, measure):
    target, _ = pipeline(max_spec=6)
    job = target.submit(command, uris(2), queue="cpu", function=None if command else measure)
    before = list(target.store.list("jobs"))
    with pytest.raises(CallerError, match=said) as raised:
        job.retry(code=lambda uri: uri)
    assert raised.value.what == "code"
    assert list(target.store.list("jobs")) == before


def test_another_folder_does_not_have_a_function_of_a_session(tmp_path):
    target, backend = pipeline(max_spec=4)
    job = target.submit(None, uris(2), queue="cpu", function=lambda uri: uri)
    (tmp_path / "a.py").touch()
    before = list(target.store.list("jobs"))
    with pytest.raises(CallerError, match="is of a session") as raised:
        job.retry(code=tmp_path)
    assert raised.value.what == "code"
    assert (list(target.store.list("jobs")), len(backend.arrays)) == (before, 1)
