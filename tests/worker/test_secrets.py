"""Jobs with personal secrets on this machine: who gets a value, and that nothing that is kept holds it.

The canary is looked for in every file of the store, of the machine's folder and of the home folder, in what commands
print, and in the arguments of every process. Not proved here: what the kernel itself keeps, such as swap.
"""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from tests.worker.containers import until

CANARY = "canary-5c1e07d2-tail"
LINES = f"-----BEGIN KEY-----\n{CANARY}\n-----END KEY-----\n"
PRINTS = """import os, sys
token = os.environ["HF_TOKEN"]
print("on stdout", token, flush=True)
print("on stderr", repr(token), file=sys.stderr)
if os.environ["TIDEMILL_INDEX"] == "1":
    raise SystemExit("refused: " + token)
"""


def set_secret(here, name: str, value: str) -> None:
    (here.folder / "value").write_text(value)
    told = here.type("secret", "set", name, "--local", "--from-file", "value")
    (here.folder / "value").unlink()
    assert told.returncode == 0, told.stderr


def holders(folder: Path, canary: str) -> list[str]:
    """Files below a folder that hold the canary, as it is or in base64."""
    wanted = [canary.encode(), base64.b64encode(canary.encode())[:-4]]
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in found if any(each in path.read_bytes() for each in wanted)]


def arguments_of_all() -> list[bytes]:
    said = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said.append(path.read_bytes())
        except OSError:
            continue
    return said


def test_no_object_record_line_report_error_or_argument_holds_the_value(here):
    set_secret(here, "HF_TOKEN", CANARY)
    (here.folder / "prints.py").write_text(PRINTS)
    ran = here.run("--name", "told", "--secret", "HF_TOKEN", "a", "b", "--", "python3", "prints.py")
    assert ran.returncode == 1, ran.stderr
    first, second = here.outcomes()
    assert (first.status, second.status) == ("succeeded", "failed")
    assert "refused: ***" in second.error
    verbs = ["results", "logs", "failures", "status", "report", "explain", "jobs"]
    asked = [
        here.ask(verb, *([] if verb == "jobs" else ["told"]), *json_) for verb in verbs for json_ in ([], ["--json"])
    ]
    asked += [here.ask("logs", "told", "--worker"), here.ask("fetch", "told", "-o", "out"), ran]
    said = "".join(each.stdout + each.stderr for each in asked)
    assert "on stdout ***" in said
    assert CANARY not in said
    assert holders(here.folder, CANARY) == [".config/tidemill/secrets.json"]


def test_the_arguments_of_no_process_hold_it_while_it_is_in_the_environment(here):
    set_secret(here, "HF_TOKEN", CANARY)
    program = f"touch {here.folder}/ready; sleep 30"
    here.start("--secret", "HF_TOKEN", "a", "--", "sh", "-c", program)
    until((here.folder / "ready").exists, "the program")
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in here.processes()]
    assert any(f"HF_TOKEN={CANARY}".encode() in each for each in environments)
    assert not [each for each in arguments_of_all() if CANARY.encode() in each]


@pytest.mark.parametrize("kind", ["program", "function"])
def test_several_lines_arrive_as_they_are_and_none_of_them_is_printed(here, kind):
    set_secret(here, "DEPLOY_KEY", LINES)
    (here.folder / "keys.py").write_text(
        "import os, hashlib\n"
        "def digest(uri):\n"
        "    print(os.environ['DEPLOY_KEY'])\n"
        "    return hashlib.sha256(os.environ['DEPLOY_KEY'].encode()).hexdigest()\n"
        "if __name__ == '__main__':\n"
        "    open(os.environ['TIDEMILL_OUTPUT'] + '/d', 'w').write(digest(''))\n"
    )
    how = {"program": ["--", "python3", "keys.py"], "function": ["--function", "keys:digest"]}[kind]
    ran = here.run("--name", "lines", "--secret", "DEPLOY_KEY", "a", *how)
    assert ran.returncode == 0, ran.stderr
    (outcome,) = here.outcomes()
    told = outcome.value or Path(outcome.output.removeprefix("file://"), "d").read_text()
    assert told == hashlib.sha256(LINES.encode()).hexdigest()
    assert holders(here.folder, CANARY) == [".config/tidemill/secrets.json"]


def test_a_job_that_asks_for_none_is_given_none(here):
    set_secret(here, "HF_TOKEN", CANARY)
    ran = here.run("a", "--", "sh", "-c", 'test -z "$HF_TOKEN"')
    assert ran.returncode == 0, ran.stderr


def test_a_secret_that_is_not_set_is_refused_and_nothing_is_written(here):
    told = here.run("--secret", "HF_TOKEN", "a", "--", "true")
    assert told.returncode == 2
    assert "HF_TOKEN is not set" in told.stderr
    assert "tidemill secret set HF_TOKEN" in told.stderr
    assert not (here.store / "jobs").exists()


def test_a_job_goes_on_with_todays_value_and_not_without_one(here):
    set_secret(here, "HF_TOKEN", "first-value")
    program = f'echo "$HF_TOKEN" | sha256sum >> {here.folder}/seen; test -e {here.folder}/fixed'
    command = ["--name", "again", "--attempts", "1", "--secret", "HF_TOKEN", "a", "--", "sh", "-c", program]
    assert here.run(*command).returncode == 1
    job = json.loads(here.ask("jobs", "--json").stdout)["jobs"][0]["job"]
    set_secret(here, "HF_TOKEN", "second-value")
    (here.folder / "fixed").touch()
    assert here.ask("retry", job, "--failed").returncode == 0
    assert here.ask("secret", "rm", "HF_TOKEN", "--local").returncode == 0
    told = here.run("--job", job)
    assert told.returncode == 2
    assert "HF_TOKEN is not set" in told.stderr
    set_secret(here, "HF_TOKEN", "third-value")
    assert here.run("--job", job).returncode == 0
    assert len(set((here.folder / "seen").read_text().split("\n")) - {""}) == 2
