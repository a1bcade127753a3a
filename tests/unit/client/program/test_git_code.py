"""Code from git, libs and tags. A repository on disk stands for one of a host; what a host answers to a login is
known from git's own words only."""

import subprocess
import tarfile

import pytest
import zstandard

from tests.unit.client_fakes import pipeline, uris
from tidemill import layout
from tidemill.client.program import git_code
from tidemill.client.program.git_code import Checkout, opened
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError
from tidemill.ledger import Ledger


def git(folder, *words):
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A repository with two branches: main, and one whose program is another."""
    folder = tmp_path / "vision.git"
    (folder / "training").mkdir(parents=True)
    (folder / "training" / "train.py").write_text("print(1)")
    (folder / "README.md").write_text("")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "One")
    git(folder, "checkout", "--quiet", "-b", "feature/two")
    (folder / "training" / "train.py").write_text("print(2)")
    git(folder, "commit", "--quiet", "-am", "Two")
    git(folder, "checkout", "--quiet", "main")
    return folder


def files_of(store, spec):
    data = zstandard.ZstdDecompressor().stream_reader(store.get(layout.code(spec.job, spec.code)))
    with tarfile.open(fileobj=data, mode="r|") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_a_branch_is_sent_as_the_commit_that_it_names(repository):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    said = []
    code = f"git+file://{repository}@feature/two#subdirectory=training"
    job = target.submit(["python3", "train.py", "{uri}"], uris(1), queue="cpu", code=code, log=said.append)
    commit = git(repository, "rev-parse", "feature/two")
    assert job.spec.code_origin == f"git+file://{repository}@{commit}#subdirectory=training"
    assert job.spec.command == ["python3", "{code}/train.py", "{uri}"]
    assert files_of(target.store, job.spec) == {"train.py": b"print(2)"}
    assert any(commit in line for line in said)


def test_a_retry_runs_with_another_branch_and_later_rounds_keep_it(repository, tmp_path):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    code = f"git+file://{repository}@main#subdirectory=training"
    job = target.submit(["python3", "train.py", "{uri}"], uris(2), queue="cpu", code=code)
    backend.run(target, job.id, fail_items=[1])
    lib = tmp_path / "common"
    lib.mkdir()
    (lib / "more.py").write_text("print(3)")
    said = []
    assert job.retry(code=code.replace("@main", "@feature/two"), libs=[lib], log=said.append).items == 1
    commit = git(repository, "rev-parse", "feature/two")
    ledger = Ledger(target.store, job.id)
    first, second = ledger.rounds()
    assert first.code_origin == job.spec.code_origin
    assert second.code_origin == f"git+file://{repository}@{commit}#subdirectory=training"
    assert files_of(target.store, job.spec.model_copy(update={"code": second.code})) == {
        "train.py": b"print(2)",
        "common/more.py": b"print(3)",
    }
    assert commit in said[0]
    job.cancel()
    job.resume()
    third = ledger.rounds()[-1]
    assert (third.round, third.code, third.code_origin) == (2, second.code, second.code_origin)


@pytest.mark.parametrize(
    ("options", "what"),
    [({"code": "git+https://"}, "code"), ({"code": "git+file:///nowhere@main"}, "code"), ({"libs": ["."]}, "lib")],
)
def test_a_retry_with_code_that_cannot_be_had_enqueues_nothing(options, what):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    job = target.submit(["python3", "train.py", "{uri}"], uris(2), queue="cpu")
    backend.run(target, job.id, fail_items=[1])
    with pytest.raises(CallerError) as raised:
        job.retry(**options)
    assert raised.value.what == what
    assert len(Ledger(target.store, job.id).rounds()) == 1


def test_the_default_branch_and_a_commit_are_fetched_too(repository):
    first = git(repository, "rev-parse", "main")
    for code in (f"git+file://{repository}", f"git+file://{repository}@{first}"):
        found = opened(code)
        assert isinstance(found, Checkout)
        assert found.origin == f"git+file://{repository}@{first}"
        assert (found.folder / "training" / "train.py").read_text() == "print(1)"
        found.close()
        assert not found.top.exists()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("git+file://{repository}@nothing", "'nothing'"),
        ("git+file://{repository}@--upload-pack=touch", "after @"),
        ("git+file://{repository}@main#subdirectory=elsewhere", "#subdirectory"),
        ("git+file://{repository}@main#subdirectory=../..", "#subdirectory"),
        ("git+file://{repository}@main#egg=x", "git+https://"),
        ("git+file://{repository}/nowhere", "needs your login"),
        ("git+ext::sh -c touch% x", "git+https://"),
        ("git+https://", "git+https://"),
        ("git+https://ada:secret@example.com/x.git@main", "clear text"),
    ],
)
def test_what_cannot_be_fetched_is_said(repository, tmp_path, code, says):
    with pytest.raises(CallerError) as raised:
        opened(code.replace("{repository}", str(repository)))
    assert raised.value.what == "code"
    assert says in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
        "remote: Repository not found.\nfatal: repository 'https://github.com/a/b/' not found",
        "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
    ],
)
def test_a_private_repository_without_a_login_says_so(monkeypatch, words):
    refused = subprocess.CompletedProcess([], 128, "", words)
    monkeypatch.setattr(git_code.subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(CallerError, match="A private repository needs your login"):
        opened("git+https://github.com/a/b@main")


def test_a_machine_without_git_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CallerError, match="git is not installed"):
        opened("git+https://github.com/a/b@main")


def test_libs_are_folders_of_the_code(tmp_path):
    for name in ("app/main.py", "common/tools.py", "other/common/x.py", "app/taken/y.py", "elsewhere/taken/z.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    target, _ = pipeline(max_spec=SPEC_VERSION)

    def sent(*libs, code=tmp_path / "app"):
        folders = [tmp_path / lib for lib in libs]
        return target.submit(["python3", "main.py", "{uri}"], uris(1), queue="cpu", code=code, libs=folders)

    found = files_of(target.store, sent("common").spec)
    assert found["common/tools.py"] == b"common/tools.py"
    for libs, code in ((["common", "other/common"], tmp_path / "app"), (["elsewhere/taken"], tmp_path / "app"),
                       (["nothing"], tmp_path / "app"), (["common"], None)):  # fmt: skip
        with pytest.raises(CallerError) as raised:
            sent(*libs, code=code)
        assert raised.value.what == "lib"


def test_tags_go_to_the_cloud_next_to_ours():
    target, backend = pipeline(max_spec=SPEC_VERSION)
    job = target.submit(["p", "{uri}"], uris(1), queue="cpu", tags={"project": "tides", "cost center": "7"})
    assert backend.arrays[0].shape.tags == {
        "project": "tides",
        "cost center": "7",
        "tidemill:team": target.descriptor.team,
        "tidemill:environment": target.descriptor.environment,
        "tidemill:job": job.id,
    }
    assert job.spec.spec_version == 1


@pytest.mark.parametrize(
    "tags",
    [
        *({key: "x"} for key in ("", "aws:x", "Tidemill:team", "a" * 129, "a;")),
        *({"a": value} for value in ("x" * 257, "x\n")),
        {f"k{n}": "" for n in range(41)},
    ],
)
def test_a_tag_that_aws_would_refuse_is_refused(tags):
    target, backend = pipeline()
    with pytest.raises(CallerError) as raised:
        target.submit(["p", "{uri}"], uris(1), queue="cpu", tags=tags)
    assert raised.value.what.startswith("tag")
    assert backend.arrays == []
