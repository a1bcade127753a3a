"""Other code for a round, where the job's function is of a session."""

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill.errors import CallerError


def test_another_folder_does_not_have_a_function_of_a_session(tmp_path):
    target, backend = pipeline(max_spec=4)
    job = target.submit(None, uris(2), queue="cpu", function=lambda uri: uri)
    (tmp_path / "a.py").touch()
    before = list(target.store.list("jobs"))
    with pytest.raises(CallerError, match="is of a session") as raised:
        job.retry(code=tmp_path)
    assert raised.value.what == "code"
    assert (list(target.store.list("jobs")), len(backend.arrays)) == (before, 1)
