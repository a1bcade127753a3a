"""The note under a merge request, and the pipeline to copy. A small GitLab on loopback; it cannot prove that GitLab
answers the same, nor how it runs the pipeline. GitLab's own schema of pipelines is in check-jsonschema
(`--builtin-schema vendor.gitlab-ci`), which the tests do not install."""

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from ops.__main__ import main
from ops.ci.github import comment

ROOT = Path(__file__).parents[3]
TOKEN = "glpat-not-to-be-printed"
ME, SOMEBODY = {"id": 7}, {"id": 8}
FOLDER = ROOT / "examples" / "gitlab"
PIPELINE = yaml.safe_load((FOLDER / ".gitlab-ci.yml").read_text())
JOBS = {name: job for name, job in PIPELINE.items() if isinstance(job, dict) and {"stage", "extends"} & job.keys()}


class Fake(ThreadingHTTPServer):
    """The endpoints that ops/ci/gitlab.py calls. https://docs.gitlab.com/api/notes/"""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.notes: list[dict] = []


class Handler(BaseHTTPRequestHandler):
    def answer(self) -> None:
        assert isinstance(self.server, Fake)
        notes, path = self.server.notes, self.path.partition("?")[0].removeprefix("/api/v4/")
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        status, content = 404, {"message": "404 Not found"}
        if self.headers["PRIVATE-TOKEN"] != TOKEN:
            status, content = 401, {"message": "401 Unauthorized"}
        elif path == "user":
            status, content = 200, ME
        elif path == "projects/3/merge_requests/5/notes" and self.command == "GET":
            page = int(self.path.rpartition("&page=")[2])
            status, content = 200, notes[100 * (page - 1) : 100 * page]
        elif path == "projects/3/merge_requests/5/notes":
            notes.append({"id": len(notes) + 1, "author": ME, **body})
            status, content = 201, notes[-1]
        elif self.command == "PUT":
            notes[int(path.rpartition("/")[2]) - 1] |= body
            status, content = 200, notes[int(path.rpartition("/")[2]) - 1]
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer  # noqa: N815

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def gitlab(monkeypatch) -> Iterator[Fake]:
    with Fake() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("GITLAB_CI", "true")
        monkeypatch.setenv("CI_API_V4_URL", f"http://127.0.0.1:{server.server_port}/api/v4")
        monkeypatch.setenv("CI_PROJECT_ID", "3")
        monkeypatch.setenv("TIDEMILL_GITLAB_TOKEN", TOKEN)
        yield server
        server.shutdown()
        thread.join()


def post(folder: Path, text: str, *options: str, pull: str = "5"):
    (folder / "review.md").write_text(text)
    done = CliRunner().invoke(comment, ["--pull", pull, *options, str(folder / "review.md")])
    assert TOKEN not in done.output
    return done


def test_the_note_is_posted_once_and_edited_afterwards(gitlab, tmp_path):
    """Also behind a hundred others, and not somebody else's note that begins with the same mark."""
    mark = "<!-- tidemill: review -->"
    gitlab.notes += [{"id": n + 1, "author": SOMEBODY, "body": f"{mark}\nmine?"} for n in range(100)]
    assert post(tmp_path, "none", "--only-edit").output == ""
    assert post(tmp_path, "first").exit_code == 0
    assert post(tmp_path, "second").output == "101\n"
    assert [note["body"] for note in gitlab.notes[100:]] == [f"{mark}\nsecond"]
    assert post(tmp_path, "x" * 2_000_000).exit_code == 0
    assert len(gitlab.notes[100]["body"]) == 1_000_000


def test_a_refusal_is_one_line_without_the_token(gitlab, tmp_path, monkeypatch):
    assert "404" in post(tmp_path, "text", pull="6").output
    monkeypatch.setenv("TIDEMILL_GITLAB_TOKEN", "wrong")
    done = post(tmp_path, "text")
    assert (done.exit_code, "401" in done.output, "wrong" in done.output) == (1, True, False)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("TIDEMILL_GITLAB_TOKEN", "", "a masked variable with a project access token"),
        ("CI_PROJECT_ID", "a/b", "CI_PROJECT_ID is 'a/b', not a number"),
        ("CI_API_V4_URL", "http://git.example.com", "not the address of GitLab's API"),
    ],
)
@pytest.mark.usefixtures("gitlab")
def test_a_missing_setting_is_named(tmp_path, monkeypatch, name, value, says):
    monkeypatch.setenv(name, value)
    done = post(tmp_path, "text")
    assert (done.exit_code, says in done.output) == (2, True), done.output


def test_only_jobs_of_a_protected_environment_log_in_as_a_writer():
    for name, job in JOBS.items():
        whole = {**PIPELINE.get(job.get("extends"), {}), **job}
        script = "\n".join(whole.get("script", []))
        writes = 'login "$row" deploy' in script
        assert writes == ("environment" in whole or name == ".deploy"), name
        if writes:
            pushed = '$CI_PIPELINE_SOURCE == "push" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH'
            assert whole["rules"] == [{"if": pushed}]
    assert JOBS["deploy prod"]["when"] == "manual"
    assert set(PIPELINE["stages"]) == {job["stage"] for job in JOBS.values() if "stage" in job}


def test_what_the_pipeline_types_is_a_command_with_these_options():
    context = click.Context(main)
    scripts = "\n".join(line for job in JOBS.values() for line in job.get("script", []))
    typed = re.findall(r"python -m ops ([^\n;|)>]+)", scripts)
    assert len(typed) >= 9
    for line in typed:
        words = shlex.split(re.sub(r'"\$\{\w+\[@\]\}"|"?\$\(.*', "", line))
        command = main.get_command(context, words[0])
        assert command, line
        known = {option for each in command.params if isinstance(each, click.Option) for option in each.opts}
        assert {word for word in words[1:] if word.startswith("--")} <= known


@pytest.mark.parametrize("who", ["preview", "deploy"])
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_job_logs_in_with_its_own_token(tmp_path, cloud, who):
    provider = "projects/1/locations/global/workloadIdentityPools/p/providers/gitlab"
    login = {"backend_url": "s3://state", "provider": provider, "preview": "reader", "deploy": "writer"}
    row = json.dumps({"stack": "a-prod", "cloud": cloud, "region": "us-west-2", "login": login})
    script = f'. {FOLDER}/login.sh; login "$ROW" {who}; env'
    tokens = {"TIDEMILL_AWS_TOKEN": "aws.jwt", "TIDEMILL_GCP_TOKEN": "gcp.jwt", "TMPDIR": str(tmp_path), "ROW": row}
    env = {"PATH": os.environ["PATH"], **tokens}
    said = subprocess.check_output(["bash", "-euo", "pipefail", "-c", script], env=env, text=True, timeout=60)
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    identity = {"preview": "reader", "deploy": "writer"}[who]
    assert found["PULUMI_BACKEND_URL"] == "s3://state"
    if cloud == "aws":
        assert (found["AWS_ROLE_ARN"], found["AWS_REGION"]) == (identity, "us-west-2")
        assert Path(found["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text() == "aws.jwt"
        return
    written = json.loads(Path(found["GOOGLE_APPLICATION_CREDENTIALS"]).read_text())
    assert written["audience"] == f"//iam.googleapis.com/{provider}{'-deploy' if who == 'deploy' else ''}"
    assert f"serviceAccounts/{identity}:generateAccessToken" in written["service_account_impersonation_url"]
    assert Path(written["credential_source"]["file"]).read_text() == "gcp.jwt"


@pytest.mark.parametrize("lacking", ["backend_url", "provider", "preview"])
def test_a_login_without_a_part_fails_where_nothing_ends_the_shell(lacking):
    """It would go on with the runner's own login."""
    login = {"backend_url": "gs://state", "provider": "p", "preview": "reader", lacking: ""}
    login = {key: value for key, value in login.items() if value or key == "provider"}
    row = json.dumps({"stack": "a-prod", "cloud": "gcp", "region": "us-west1", "login": login})
    script = f'. {FOLDER}/login.sh; failed=0; (login "$ROW" preview || exit; echo went on) || failed=1; echo $failed'
    env = {"PATH": os.environ["PATH"], "TIDEMILL_GCP_TOKEN": "gcp.jwt", "ROW": row}
    said = subprocess.check_output(["bash", "-euo", "pipefail", "-c", script], env=env, text=True, timeout=60)
    assert said == "1\n"


@pytest.mark.parametrize("fails", ["", "plan --stack b-dev", "orphans --stack c-dev"])
def test_a_stack_whose_plan_fails_is_red_and_not_deployed(tmp_path, fails):
    """The scripts of both jobs, with a Python that knows nothing but which of its commands fail."""
    login = {"backend_url": "s3://state", "preview": "reader", "deploy": "writer"}
    stacks = [{"stack": f"{team}-dev", "environment": "dev", "removed": team == "c"} for team in "abc"]
    rows = [{**each, "cloud": "aws", "region": "us-west-2", "login": login} for each in stacks]
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/bash\n"
        f'if [ "$3" = affected ]; then echo {shlex.quote(json.dumps(rows))}; exit; fi\n'
        'echo "${*:3}" >> typed\n'
        'if [ "$3" = plan ]; then echo {} > "${@: -1}"; fi\n'
        f'if [ -n "{fails}" ] && [[ "${{*:3}}" == "{fails}"* ]]; then exit 1; fi\n'
    )
    python.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "TIDEMILL_AWS_TOKEN": "jwt", "CI_COMMIT_BEFORE_SHA": "a"}
    env |= {"CI_ENVIRONMENT_NAME": "dev", "TMPDIR": str(tmp_path)}
    codes = []
    for job in ("plan", ".deploy"):
        (script,) = (JOBS | PIPELINE)[job]["script"]
        command = ["bash", "-c", f". {FOLDER}/login.sh\n{script}"]
        codes.append(subprocess.run(command, cwd=tmp_path, env=env, check=False, timeout=60).returncode)
    deployed = [line.split()[2] for line in (tmp_path / "typed").read_text().splitlines() if line.startswith("deploy")]
    assert (codes, deployed) == ([bool(fails), 0], ["a-dev"] if "b-dev" in fails else ["a-dev", "b-dev"])
