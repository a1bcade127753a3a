"""What a review may show of a stack's values: no secret, nothing active in a comment, and never too much of it."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ops.review.build import build
from ops.review.document import parse
from ops.review.escape import block, code, words
from ops.review.markdown import LIMIT, render
from ops.review.values import clean, hides
from tests.ops.review_steps import TODAY, document, reviewed, stack, statement, step

SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "leak-me"}
GITHUB = MarkdownIt("commonmark", {"html": True}).enable("table")


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"password": "leak-me"}, "password"),
        ({"auth": {"apiKey": "leak-me"}}, "auth.apiKey"),
        ({"environment": {"HF_TOKEN": "leak-me"}}, "environment.HF_TOKEN"),
        ({"containers": [{"environment": [{"name": "DB_PASSWORD", "value": "leak-me"}]}]},
         "containers[0].environment[0].value"),
        ({"definition": json.dumps({"environment": [{"name": "DB_PASSWORD", "value": "leak-me"}]})}, "definition"),
        ({"definition": json.dumps({"secrets": {"key": "leak-me"}})}, "definition"),
        ({"userData": "export KEY=leak-me"}, "userData"),
        ({"metadata": {"user-data": "leak-me"}}, "metadata.user-data"),
        ({"value": SECRET}, "value"),
        ({"note": "AKIAIOSFODNN7EXAMPLE leak-me".replace("leak-me", "")}, "note"),
        ({"note": "ghp_" + "a" * 36}, "note"),
    ],
)  # fmt: skip
def test_a_secret_is_shown_nowhere_however_it_is_written(inputs, path):
    other = json.loads(json.dumps(inputs).replace("leak-me", "leak-it-too").replace("AKIAIO", "AKIAXX"))
    found = reviewed(step("update", "aws:x/y:Y", old=other, new=inputs, diff={path: "update"}))
    (change,) = found.stacks[0].changes
    assert change.properties, "that it changes is told"
    text = render(found) + repr(found)
    for secret in ("leak-me", "leak-it-too", "AKIAIOSFODNN7EXAMPLE", "AKIAXXSFODNN7EXAMPLE", "ghp_aaa"):
        assert secret not in text


def test_where_a_secret_is_kept_and_what_only_sounds_like_one_are_shown():
    arn = "arn:aws:secretsmanager:us-west-2:123456789012:secret:vision/hf-token-AbCdEf"
    shown = clean({"secrets": {"HF_TOKEN": arn}, "httpTokens": "required", "kmsKeyId": "k", "forcePassword": True})
    assert shown == {"secrets": {"HF_TOKEN": arn}, "httpTokens": "required", "kmsKeyId": "k", "forcePassword": True}


def test_an_error_of_the_program_needs_no_second_line():
    after = "an unhandled error occurred: the program ended with exit code 1"
    assert stack(errors=["tidemill:team: wrong", after], exit_code=1).errors == ("tidemill:team: wrong",)
    assert stack(errors=[after], exit_code=1).errors == (after,)


def test_a_secret_in_what_the_engine_says_is_not_repeated():
    failed = stack(errors=["boom ghp_" + "a" * 36], exit_code=1)
    assert failed.errors == ("boom [hidden]",)


@pytest.mark.parametrize(
    ("value", "path", "hidden"),
    [
        ({"a": [{"name": "X_TOKEN", "value": 1}]}, ("a", 0, "value"), True),
        ({"a": [{"name": "COLOUR", "value": 1}]}, ("a", 0, "value"), False),
        ({"a": json.dumps({"token": {"b": 1}})}, ("a", "token", "b"), True),
    ],
)
def test_a_path_is_followed_into_documents(value, path, hidden):
    assert hides(value, path) is hidden


HOSTILE = [
    "`</code><h1>approved</h1>`",
    "x | y | z",
    "line\n\n## Tidemill: nothing changes",
    "<!-- tidemill: review -->",
    "@example/admins please merge #1",
    "</details><img src=x onerror=alert(1)>",
    "[click](https://example.com)",
    "https://example.com/login www.example.com",
    "\\`\\|\\",
    "\u202egnp.exe\u2066",
    "***bold*** _em_ ~~gone~~ &lt;b&gt;",
    "```\nfence\n```",
]


def forged(markdown: str) -> list[str]:
    """The parts of a text that are neither text nor code: everything that a value might have injected."""
    found = []
    for token in GITHUB.parse(markdown):
        if token.type in ("heading_open", "html_block", "fence", "code_block", "bullet_list_open", "blockquote_open"):
            found.append(token.type)
        for child in token.children or []:
            allowed = child.type in ("text", "code_inline") or child.content in ("<code>", "</code>")
            found += [] if allowed else [f"{child.type} {child.content}"]
    return found


def cells(markdown: str) -> int:
    return sum(token.type == "td_open" for token in GITHUB.parse(markdown))


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_stays_text_in_a_table(value):
    for shown in (code(value), words(value)):
        table = f"| a | b |\n|---|---|\n| {shown} | end |\n"
        assert cells(table) == 2
        assert forged(table) == []


@given(st.text(alphabet=st.characters(codec="utf-8")))
@settings(max_examples=150, deadline=None)
def test_no_text_is_anything_but_text(value):
    for shown in (code(value), words(value)):
        assert "\n" not in shown
        table = f"| a | b |\n|---|---|\n| x{shown}x | end |\n"
        assert cells(table) == 2
        assert forged(table) == []


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_stack_forges_nothing_in_the_whole_comment(value):
    plain, bad = (
        render(
            reviewed(
                step("update", "aws:x/y:Y", each, old={"a": "1"}, new={"a": each}, diff={"a": "update"}),
                stack=each,
                waivers=[{"rule": each, "resource": each, "reason": each, "until": "2027-01-31"}],
            )
        )
        for each in ("harmless", value)
    )
    kinds = [[token.type for token in GITHUB.parse(text)] for text in (plain, bad)]
    assert kinds[0] == kinds[1]
    assert "@example" not in re.sub(r"`[^`]*`", "", bad)


def test_what_cannot_be_seen_is_written_out():
    assert code("a\u202egnp.exe\u200b") == "<code>a&#92;u202egnp.exe&#92;u200b</code>"


def test_a_mention_outside_of_code_is_broken_up():
    assert "@" not in words("ask @example/admins")
    assert words("see #1").count("&#8203;") == 1


def test_the_fence_of_a_block_is_longer_than_any_in_it():
    (token,) = GITHUB.parse(block("a\n```\n# b\n````\nc"))
    assert token.type == "fence"
    assert "# b" in token.content


def many(count: int, name: str = "store") -> list:
    words_ = "x" * 50
    return [
        *(step("delete", "aws:s3/bucket:Bucket", f"{name}-{n}", old={"bucket": "a"}) for n in range(count)),
        *(
            step("update", "aws:iam/rolePolicy:RolePolicy", f"{name}-p{n}", diff={"policy": "update"},
                 old={"role": "r", "policy": statement(Action="s3:A", Resource="a")},
                 new={"role": "r", "policy": statement(Action=[f"s3:{words_}{i}" for i in range(30)], Resource="*")})
            for n in range(count)
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 30, 300, 1000])
def test_a_comment_is_never_longer_than_github_takes_and_what_is_dangerous_goes_last(count):
    text = render(reviewed(*many(count)))
    assert len(text.encode()) <= LIMIT
    assert f"{count} critical, {count} high" in text
    assert text.index("deletes the bucket") < text.index("policy adds")
    assert ("Left out" in text) is (count > 30)
    assert text.count("<details>") == text.count("</details>") == 1


def test_what_many_stacks_do_alike_is_told_once():
    previews = [
        parse(json.dumps(document(step("delete", "aws:s3/bucket:Bucket", "store", old={}), stack=f"team-{n}")), "x")
        for n in range(3)
    ]
    text = render(build(previews, TODAY))
    assert text.count("deletes the bucket") == 1
    assert "| critical | `team-0`, `team-1`, `team-2` | `store` |" in text
    assert text.startswith("## Tidemill: 3 critical, 3 resources change")


def test_a_long_name_or_value_breaks_no_limit():
    long = "n" * 70_000
    text = render(
        reviewed(
            step("delete", "aws:s3/bucket:Bucket", long, old={"bucket": "a"}),
            step("update", "aws:x/y:Y", long, old={"a": long}, new={"a": long + "1"}, diff={"a": "update"}),
            errors=[long] * 3,
            exit_code=1,
            stack="s" * 70_000,
        )
    )
    assert len(text.encode()) <= LIMIT
    assert "1 critical" in text or "2 critical" in text
