"""The checks for a real account: their page, and how they judge a wrong answer."""

import pytest

from ops.first_account import account
from ops.first_account.checks import CHECKS
from ops.first_account.page import PAGE, page


def test_the_page_is_current():
    assert PAGE.read_text() == page(), "run: python -m ops.first_account.page"


def test_each_check_says_everything():
    assert len(CHECKS) <= 40
    for check in CHECKS:
        assert all((check.name, check.command, check.expect, check.otherwise)), check


def test_another_answer_is_told(monkeypatch):
    class Outcome:
        index, output, error = 0, "memory://out/", None

    class Asked:
        class finished:  # noqa: N801 as the attribute is called
            @staticmethod
            def results():
                return [Outcome]

        class pipeline:  # noqa: N801 as the attribute is called
            store = None

    class There:
        def locate(self, uri):
            return self, uri

        def get(self, name):
            return b"200"

    monkeypatch.setattr(account, "Stores", lambda home: There())
    with pytest.raises(account.DiffersError, match="saw 200"):
        account.no_metadata(Asked)  # type: ignore[arg-type]
