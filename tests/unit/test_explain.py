"""The rules of explain on facts alone, and the page of its causes. What this cannot prove: that the facts are read
right (tests/localcloud/test_explain_aws.py)."""

from __future__ import annotations

from pathlib import Path

from tidemill.explain import page
from tidemill.explain.causes import CAUSES, KINDS

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_that_of_the_table() -> None:
    text = (ROOT / "docs" / "explain.md").read_text()
    assert text == page.page(), "run: python -m tidemill.explain.page docs/explain.md"
    assert all(f'<a id="{cause.docs.partition("#")[2]}">' in text for cause in CAUSES)


def test_codes_are_unique_and_classes_known() -> None:
    assert len({cause.code for cause in CAUSES}) == len(CAUSES)
    assert {cause.kind for cause in CAUSES} <= set(KINDS)
