"""Comments and issues are edited in place. A small GitHub on loopback; it cannot prove that GitHub answers the same."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from ops.ci.github import MARK, MOST, GitHub, fitting
from ops.ci.rest import HostError

ROOT = Path(__file__).parents[2]
TOKEN = "a-token"


class Fake(ThreadingHTTPServer):
    """The endpoints that ops/ci/github.py calls. https://docs.github.com/en/rest/issues"""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict] = []
        self.issues: list[dict] = []
        self.keeps_labels = True

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, path: str, query: dict[str, str], body: dict) -> tuple[int, object]:
        first = (int(query.get("page", 1)) - 1) * int(query.get("per_page", 30))
        page = slice(first, first + int(query.get("per_page", 30)))
        answer: tuple[int, object] = 404, {"message": "Not Found"}
        match [method, *path.removeprefix("/repos/team/infra/").split("/")]:
            case ["GET", "issues", number, "comments"]:
                answer = 200, [c for c in self.comments if c["on"] == int(number)][page]
            case ["POST", "issues", number, "comments"] if len(body["body"]) <= MOST:
                made = {"id": len(self.comments) + 1, "on": int(number), "html_url": "https://example.com/c", **body}
                self.comments.append(made)
                answer = 201, made
            case ["PATCH", "issues", "comments", number]:
                self.comments[int(number) - 1] |= body
                answer = 200, self.comments[int(number) - 1]
            case ["GET", "issues"]:
                fits = [i for i in self.issues if i["state"] == query["state"]]
                answer = 200, [i for i in fits if query["labels"] in [label["name"] for label in i["labels"]]][page]
            case ["POST", "issues"]:
                labels = [{"name": name} for name in body["labels"]] if self.keeps_labels else []
                made = {"number": len(self.issues) + 1, "state": "open", "html_url": "https://example.com/i"}
                self.issues.append({**made, **body, "labels": labels})
                answer = 201, self.issues[-1]
            case ["PATCH", "issues", number]:
                self.issues[int(number) - 1] |= body
                answer = 200, self.issues[int(number) - 1]
        return answer


class Handler(BaseHTTPRequestHandler):
    def answer(self) -> None:
        assert isinstance(self.server, Fake)
        parts = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        status, content = 401, {"message": "Bad credentials"}
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            status, content = self.server.answer(self.command, parts.path, query, body)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    do_GET = do_POST = do_PATCH = answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is printed."""


@pytest.fixture
def fake() -> Iterator[Fake]:
    with Fake() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


@pytest.fixture
def github(fake: Fake) -> GitHub:
    return GitHub("team/infra", TOKEN, fake.api)


def test_a_pull_request_keeps_one_comment_however_often_it_is_reviewed(fake, github):
    # Others' words, beyond the first page, and a quote of ours.
    fake.comments = [{"id": n + 1, "on": 7, "body": f"word {n}", "html_url": ""} for n in range(120)]
    fake.comments.append({"id": 121, "on": 7, "body": f"> {MARK} what is this?", "html_url": ""})
    assert github.comment(7, "nothing to say", only_edit=True) is None
    github.comment(7, "first")
    github.comment(8, "another pull request's")
    github.comment(7, "second", only_edit=True)
    ours = [c["body"] for c in fake.comments[121:]]
    assert ours == [f"{MARK}\nsecond", f"{MARK}\nanother pull request's"]
    assert fake.comments[120]["body"].startswith(">"), "a comment that only quotes the mark is somebody's own"


def test_a_comment_that_is_too_long_is_cut_after_a_line_and_says_so(fake, github):
    github.comment(7, "| a row of a table |\n" * 5000)
    body = fake.comments[0]["body"]
    assert len(body) <= MOST
    assert body.endswith("| a row of a table |\n\n… Cut here: GitHub accepts no more.\n")
    assert fitting("x" * MOST) == "x" * MOST


def test_a_stack_has_one_open_issue_which_closes_when_it_is_clean(fake, github):
    assert github.close_issue("Drift: vision-prod", "clean") is None
    github.open_issue("Drift: vision-prod", "one")
    github.open_issue("Drift: vision-prod", "two")
    github.open_issue("Drift: speech-prod", "other")
    assert [(i["title"], i["body"], i["state"]) for i in fake.issues] == [
        ("Drift: vision-prod", "two", "open"),
        ("Drift: speech-prod", "other", "open"),
    ]
    github.close_issue("Drift: vision-prod", "clean again")
    assert [i["state"] for i in fake.issues] == ["closed", "open"]
    assert fake.comments[-1]["body"] == "clean again"
    github.open_issue("Drift: vision-prod", "three")
    assert [i["number"] for i in fake.issues if i["state"] == "open"] == [2, 3], "what is closed stays closed"


def test_half_an_answer_is_told(fake, github, monkeypatch):
    monkeypatch.setattr(json, "dumps", lambda _: '[{"id": 1')
    with pytest.raises(HostError, match="GET issues/7/comments: "):
        github.comment(7, "text", only_edit=True)


def test_an_issue_that_would_not_be_found_again_is_an_error(fake, github):
    fake.keeps_labels = False
    with pytest.raises(HostError, match="did not get the label 'drift'"):
        github.open_issue("Drift: vision-prod", "one")


def run(fake: Fake, file: Path, **given: str) -> subprocess.CompletedProcess:
    own = {"GITHUB_REPOSITORY": "team/infra", "GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": fake.api, **given}
    command = [sys.executable, "-m", "ops", "comment", "--pull", "7", str(file)]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_command_tells_where_the_comment_is_or_what_github_said(fake, tmp_path):
    file = tmp_path / "review.md"
    file.write_text("## Review\n")
    done = run(fake, file)
    assert (done.returncode, done.stdout) == (0, "https://example.com/c\n"), done.stderr
    assert fake.comments[0]["body"] == f"{MARK}\n## Review\n"
    refused = run(fake, file, GITHUB_TOKEN="another")
    assert refused.returncode == 1
    assert "401" in refused.stderr
    assert "Traceback" not in refused.stderr
    mistaken = run(fake, file, GITHUB_REPOSITORY="infra")
    assert mistaken.returncode == 2
    assert "GITHUB_REPOSITORY is 'infra', not owner/name" in mistaken.stderr
