"""Leases of a child of an array, from its container's environment."""

import pytest

from tidemill.errors import CallerError
from tidemill.ledger import Round, RoundArray
from tidemill.services.batch.lease.array import ArrayLease, ArrayLeases

ENV = {"TIDEMILL_JOB": "t-00000000", "TIDEMILL_ROUND": "1", "TIDEMILL_ARRAY": "1", "AWS_BATCH_JOB_ID": "x:2"}


ROUND = Round(round=1, arrays=[RoundArray(name="a", first=0, count=3), RoundArray(name="b", chunks=[9, 7, 5])])


def test_a_child_holds_its_chunk_once():
    leases = ArrayLeases({**ENV, "AWS_BATCH_JOB_ARRAY_INDEX": "2", "AWS_BATCH_JOB_ATTEMPT": "4"})
    assert not leases.exhausted
    lease = leases.lease()
    assert lease is not None
    assert (lease.chunk(ROUND), lease.delivery, lease.backend) == (5, 4, {"job_id": "x:2", "attempt": 4})
    assert leases.exhausted
    assert leases.lease() is None


def test_a_plain_job_is_the_first_child():
    assert ArrayLease(ENV).chunk(ROUND) == 9


def test_no_two_attempts_have_one_name():
    assert ArrayLease(ENV).id != ArrayLease(ENV).id


@pytest.mark.parametrize(
    "env",
    [{}, {**ENV, "TIDEMILL_JOB": ""}, {**ENV, "TIDEMILL_ROUND": "x"}, {**ENV, "AWS_BATCH_JOB_ARRAY_INDEX": "-1"}],
)
def test_what_no_submit_has_set_is_refused(env):
    with pytest.raises(CallerError):
        ArrayLease(env)


def test_a_child_that_the_round_does_not_know():
    with pytest.raises(CallerError, match="child 3"):
        ArrayLease({**ENV, "AWS_BATCH_JOB_ARRAY_INDEX": "3"}).chunk(ROUND)
