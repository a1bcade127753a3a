"""Personal secrets: names, values, the file on this machine, the command, and what a submit refuses.

What this cannot prove: that nobody else reads the file of a machine whose root is not its user, and a real terminal.
"""

import io
import json
import signal
import stat
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill.cli import main
from tidemill.client import Pipeline
from tidemill.client.secrets import PersonalSecrets
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError
from tidemill.folders import config_folder
from tidemill.secrets.local import LocalSecrets
from tidemill.secrets.rules import MOST_BYTES, check_name, check_value, one_line, read_document, write_document

PROGRAM = ["python3", "x.py", "{uri}"]
CANARY = "canary-9f3b1c"
TAKEN = ["PATH", "Path", "LD_PRELOAD", "TIDEMILL_STORE", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "HTTPS_PROXY", "SM_HPS"]
NO_NAMES = ["", "1A", "A-B", "A B", "A=B", "Ä", "A\n", "A" * 129, None, 3]


@pytest.fixture
def typed(monkeypatch):
    """Give a command its standard input."""

    def give(data: bytes, *arguments: str) -> int:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False))
        return main(["secret", *arguments])

    return give


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A folder without a pipeline."""
    monkeypatch.delenv("TIDEMILL_PIPELINE", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [*TAKEN, *NO_NAMES])
def test_a_name_that_no_secret_may_have_is_refused(name):
    with pytest.raises(CallerError) as refused:
        check_name(name)
    assert refused.value.what == "name"


@pytest.mark.parametrize("name", ["HF_TOKEN", "_a", "WANDB_API_KEY", "A" * 128, "PATHS"])
def test_any_other_name_of_a_variable_is_taken(name):
    check_name(name)


@pytest.mark.parametrize("value", ["", "a\0b", "\ud800", None, b"bytes", "x" * (MOST_BYTES + 1), "x" * 100_000])
def test_a_value_that_no_variable_holds_is_refused_and_not_shown(value):
    with pytest.raises(CallerError) as refused:
        check_value("HF_TOKEN", value)
    assert refused.value.what == "HF_TOKEN"
    assert len(str(refused.value)) < 300
    assert not value or str(value) not in str(refused.value)


@pytest.mark.parametrize("value", ["a", "-----BEGIN\nline\n-----END\n", "ü" * (MOST_BYTES // 2), " \t"])
def test_a_text_is_kept_as_it_is(value):
    PersonalSecrets(LocalSecrets()).set("KEY", value)
    assert LocalSecrets().read() == {"KEY": value}


def test_a_line_loses_its_end_and_lines_do_not():
    assert [one_line(text) for text in ("a\n", "a\r\n", "a", "a\nb\n", "\n")] == ["a", "a", "a", "a\nb\n", ""]


def test_all_of_them_together_have_a_limit_and_the_old_ones_stay():
    secrets = PersonalSecrets(LocalSecrets())
    secrets.set("A", "a" * MOST_BYTES)
    with pytest.raises(CallerError) as refused:
        secrets.set("B", "b" * MOST_BYTES)
    assert "65536" in refused.value.problem
    assert secrets.names() == ["A"]


@pytest.mark.parametrize("text", ["", "[]", '{"A": 1}', '{"A": "canary'])
def test_a_damaged_document_is_not_quoted(text):
    with pytest.raises(ValueError, match="names and texts") as refused:
        read_document(text)
    assert "canary" not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_the_document_is_read_as_it_was_written():
    values = {"A": "ü\n\"'", "B": "b"}
    assert read_document(write_document(values)) == values


class TestFile:
    def test_only_the_user_may_read_it(self):
        PersonalSecrets(LocalSecrets()).set("HF_TOKEN", CANARY)
        path = config_folder() / "secrets.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert [each.name for each in path.parent.iterdir()] == ["secrets.json"]

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
    def test_one_that_others_may_read_is_refused(self, mode):
        secrets = PersonalSecrets(LocalSecrets())
        secrets.set("HF_TOKEN", CANARY)
        (config_folder() / "secrets.json").chmod(mode)
        for asked in (secrets.names, lambda: secrets.set("B", "b"), lambda: LocalSecrets().of_job(["HF_TOKEN"])):
            with pytest.raises(CallerError) as refused:
                asked()
            assert refused.value.command.startswith("chmod 600 ")

    def test_one_that_is_damaged_is_neither_shown_nor_replaced(self):
        secrets = PersonalSecrets(LocalSecrets())
        secrets.set("HF_TOKEN", CANARY)
        path = config_folder() / "secrets.json"
        path.write_text(f"[{CANARY}")
        with pytest.raises(CallerError) as refused:
            secrets.set("B", "b")
        assert "is damaged" in str(refused.value)
        assert CANARY not in str(refused.value)
        assert path.read_text() == f"[{CANARY}"

    def test_the_environment_comes_first_and_an_empty_variable_is_none(self, monkeypatch):
        secrets = PersonalSecrets(LocalSecrets())
        secrets.set("A", "file")
        secrets.set("B", "file")
        monkeypatch.setenv("A", "environment")
        monkeypatch.setenv("B", "")
        assert LocalSecrets().of_job(["A", "B", "C"]) == {"A": "environment", "B": "file"}


@pytest.mark.usefixtures("nowhere")
class TestCommand:
    def test_a_secret_is_set_listed_and_removed_and_never_shown(self, typed, capsys):
        assert typed(f"{CANARY}\n".encode(), "set", "HF_TOKEN") == 0
        assert typed(b"", "list") == 0
        assert capsys.readouterr().out == "HF_TOKEN\n"
        assert LocalSecrets().read() == {"HF_TOKEN": CANARY}
        assert typed(b"", "list", "--json") == 0
        place = str(config_folder() / "secrets.json")
        assert json.loads(capsys.readouterr().out) == {"place": place, "secrets": ["HF_TOKEN"]}
        assert typed(b"", "rm", "HF_TOKEN") == 0
        assert typed(b"", "list") == 0
        out, err = capsys.readouterr()
        assert not out
        assert CANARY not in err
        assert LocalSecrets().read() == {}

    def test_a_file_may_hold_lines(self, typed, tmp_path):
        (tmp_path / "key.pem").write_text("-----BEGIN\nabc\n-----END\n")
        assert typed(b"", "set", "DEPLOY_KEY", "--from-file", "key.pem") == 0
        assert LocalSecrets().read() == {"DEPLOY_KEY": "-----BEGIN\nabc\n-----END\n"}

    @pytest.mark.parametrize(
        ("data", "arguments", "said"),
        [
            (b"a", ["set"], "takes a NAME"),
            (b"a", ["list", "A"], "takes no NAME"),
            (b"a", ["set", "PATH"], "another name"),
            (b"a", ["set", "A B"], "letters, digits"),
            (b"a", ["set", f"A={CANARY}"], "must be the name alone"),
            (b"a", ["set", "A", CANARY], "`tidemill secret set NAME` asks for it"),
            (b"a", ["rm", "A", "B"], "one NAME at a time"),
            (b"a", ["rm", "A"], "A is not set; no secret is set.\n"),
            (b"a", ["rm", "A", "--from-file", "x"], "goes with set"),
            (b"", ["set", "A"], "is empty"),
            (b"\xff", ["set", "A"], "not UTF-8"),
            (b"x" * 100_000, ["set", "A"], "bytes"),
            (b"", ["set", "A", "--from-file", "missing"], "cannot be read"),
            (b"", ["set", "A", "--from-file", "."], "cannot be read"),
        ],
    )
    def test_a_mistake_is_one_line_and_keeps_nothing(self, typed, capsys, data, arguments, said):
        assert typed(data, *arguments) == 2
        err = capsys.readouterr().err
        assert said in err
        assert "Traceback" not in err
        assert CANARY not in err
        assert LocalSecrets().read() == {}

    def test_a_pipeline_that_several_people_share_keeps_none(self, typed, capsys, installed):
        installed()
        assert typed(CANARY.encode(), "set", "HF_TOKEN") == 2
        assert "keeps no personal secrets" in capsys.readouterr().err
        assert typed(CANARY.encode(), "set", "HF_TOKEN", "--local") == 0
        assert LocalSecrets().read() == {"HF_TOKEN": CANARY}


class TestSubmit:
    def sent(self, target: Pipeline, **changes):
        return target.submit(PROGRAM, uris(3), queue="cpu", name="tiles", **changes)

    def target(self, max_spec: int = SPEC_VERSION) -> Pipeline:
        target, backend = pipeline(max_spec=max_spec)
        backend.secret_store = LocalSecrets()
        return target

    def test_the_spec_has_the_name_and_no_object_and_no_array_the_value(self):
        target, backend = pipeline(max_spec=SPEC_VERSION)
        backend.secret_store = LocalSecrets()
        target.secrets.set("HF_TOKEN", CANARY)
        job = self.sent(target, secrets=["HF_TOKEN", "HF_TOKEN"])
        assert (job.spec.secrets, job.spec.spec_version) == (["HF_TOKEN"], 7)
        assert not [name for name in target.store.list("") if CANARY.encode() in target.store.get(name)]
        assert backend.arrays
        assert CANARY not in repr([vars(array) for array in backend.arrays])

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"secrets": ["HF_TOKEN"]}, "HF_TOKEN is not set"),
            ({"secrets": ["B", "A"]}, "A, B are not set"),
            ({"secrets": "A"}, "secrets is 'A'"),
            ({"secrets": [1]}, "secrets[0] is 1"),
            ({"secrets": ["PATH"]}, "another name"),
            ({"secrets": ["A b"]}, "letters, digits"),
            ({"secrets": ["A=b"]}, "secrets is a name and a value"),
            ({"secrets": ["SET"], "env": {"SET": "x"}}, "by `env` and by `secrets`"),
        ],
    )
    def test_a_mistake_is_refused_before_anything_is_written(self, changes, said):
        target = self.target()
        target.secrets.set("SET", "x")
        before = set(target.store.list(""))
        with pytest.raises(CallerError) as refused:
            self.sent(target, **changes)
        assert said in str(refused.value)
        assert set(target.store.list("")) == before

    def test_a_pipeline_of_several_people_and_one_with_older_workers_refuse(self):
        shared, _ = pipeline(max_spec=SPEC_VERSION)
        with pytest.raises(CallerError, match="keeps no personal secrets"):
            self.sent(shared, secrets=["A"])
        with pytest.raises(CallerError, match="leave `secrets` out"):
            self.sent(self.target(max_spec=6), secrets=["A"])

    def test_a_job_without_secrets_keeps_its_id_and_asks_no_secret_store(self):
        target, backend = pipeline(max_spec=SPEC_VERSION)
        backend.secrets = lambda: pytest.fail("asked")
        assert self.sent(target).spec.spec_version == 1

    def test_a_retry_and_a_resume_need_them_too(self):
        target = self.target()
        target.secrets.set("HF_TOKEN", CANARY)
        job = self.sent(target, secrets=["HF_TOKEN"])
        target.secrets.remove("HF_TOKEN")
        before = set(target.store.list(""))
        for again in (job.retry, job.resume):
            with pytest.raises(CallerError, match="HF_TOKEN is not set"):
                again()
        assert set(target.store.list("")) == before

    def test_another_set_of_names_is_another_job_and_another_value_is_not(self):
        target = self.target()
        target.secrets.set("A", "one")
        target.secrets.set("B", "b")
        first = self.sent(target, secrets=["A"])
        target.secrets.set("A", "two")
        assert self.sent(target, secrets=["A"]).id == first.id
        assert self.sent(target, secrets=["A", "B"]).id != first.id


KILLED = """
import os, signal
from tidemill.secrets.local import LocalSecrets
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
LocalSecrets().change({"HF_TOKEN": "canary-9f3b1c"})
"""


@pytest.mark.parametrize("verb", ["rm", "set", "rm of none"])
def test_a_value_is_gone_after_a_command_that_was_killed_while_it_wrote(verb):
    kept = {"OTHER": "other"} if verb == "rm of none" else {"HF_TOKEN": CANARY}
    LocalSecrets().change(kept)
    folder = config_folder()
    assert subprocess.run([sys.executable, "-c", KILLED], timeout=60, check=False).returncode == -signal.SIGKILL
    assert len(list(folder.iterdir())) > 1
    secrets = PersonalSecrets(LocalSecrets())
    if verb == "set":
        secrets.set("HF_TOKEN", "other")
    else:
        with nullcontext() if verb == "rm" else pytest.raises(CallerError):
            secrets.remove("HF_TOKEN")
    assert not [path for path in folder.iterdir() if CANARY in path.read_text()]
    assert [path.name for path in folder.iterdir()] == ["secrets.json"]
