"""Contexts and shell completion. What this cannot prove: zsh and fish, which are not on every machine."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.unit.client_fakes import descriptor
from tidemill.cli import contexts, main
from tidemill.cli.commands import run
from tidemill.cli.known_jobs import known_jobs, note_jobs
from tidemill.client import Pipeline
from tidemill.errors import CallerError
from tidemill.secrets.local import LocalSecrets


@pytest.fixture
def uris(tmp_path, monkeypatch):
    """Two pipelines, vision-dev and vision-prod, and none chosen."""
    monkeypatch.delenv("TIDEMILL_PIPELINE", raising=False)
    monkeypatch.delenv("TIDEMILL_DEBUG", raising=False)
    found = {}
    for environment in ("dev", "prod"):
        made = descriptor(f"file://{tmp_path}/{environment}", environment=environment)
        (tmp_path / environment).mkdir()
        (tmp_path / environment / "pipeline.json").write_text(made.model_dump_json())
        found[environment] = made.uri
    return found


def chosen(capsys, *arguments):
    """The descriptor that a verb speaks to, by the store that its error names."""
    assert main(["status", "nothing", *arguments]) == 2
    said = capsys.readouterr().err
    return next((e for e in ("dev", "prod") if f"/{e}/jobs" in said), said)


def test_a_uri_makes_a_context_and_a_name_uses_it(uris, capsys):
    assert main(["use", uris["dev"]]) == 0
    assert capsys.readouterr().out == f"vision-dev: {uris['dev']}\n"
    assert chosen(capsys) == "dev"
    assert main(["use", uris["prod"]]) == 0
    assert chosen(capsys) == "prod"
    assert main(["use", "vision-dev"]) == 0
    assert chosen(capsys) == "dev"
    capsys.readouterr()
    assert main(["use"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["context", "pipeline"],
        ["*", "vision-dev", uris["dev"]],
        ["vision-prod", uris["prod"]],
    ]


def test_without_a_choice_it_is_the_store_that_a_local_run_left_in_this_folder(uris, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dev").rename(tmp_path / ".tidemill")
    assert chosen(capsys, "--pipeline", uris["prod"]) == "prod"
    assert chosen(capsys) == "dev"
    main(["use", uris["prod"]])
    capsys.readouterr()
    assert chosen(capsys) == "prod"


def test_the_option_stands_over_the_environment_and_that_over_the_context(uris, capsys, monkeypatch):
    main(["use", uris["dev"]])
    main(["use", uris["prod"], "--name", "other"])
    capsys.readouterr()
    assert chosen(capsys, "--pipeline", uris["dev"]) == "dev"
    assert chosen(capsys, "--pipeline", "vision-dev") == "dev"
    monkeypatch.setenv("TIDEMILL_PIPELINE", uris["dev"])
    assert chosen(capsys) == "dev"
    assert chosen(capsys, "--pipeline", "other") == "prod"
    assert main(["use"]) == 0
    assert capsys.readouterr().err == f"TIDEMILL_PIPELINE is set and overrides it: {uris['dev']}\n"


def test_json_has_stable_keys(uris, capsys):
    main(["use", uris["dev"]])
    capsys.readouterr()
    assert main(["use", "--json"]) == 0
    rows = [{"name": "vision-dev", "pipeline": uris["dev"]}]
    assert json.loads(capsys.readouterr().out) == {"current": "vision-dev", "contexts": rows}


def test_forgetting_a_context(uris, capsys):
    main(["use", uris["dev"]])
    assert main(["use", "vision-dev", "--forget"]) == 0
    assert contexts.read() == contexts.Contexts()
    assert "no context is in use" in chosen(capsys)
    assert main(["use"]) == 0
    assert capsys.readouterr().out.startswith("No context has been made yet")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["use", "vision-test"], "There is no context 'vision-test' in your config, which has: vision-dev. Did"),
        (["use", "vision-test", "--forget"], "There is no context 'vision-test'"),
        (["use", "--forget"], "need a NAME or URI"),
        (["use", "file:///nowhere/pipeline.json"], "does not exist. Give"),
        (["status", "tiles", "--pipeline", "vision-test"], "There is no context 'vision-test'"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(uris, capsys, arguments, words):
    main(["use", uris["dev"]])
    capsys.readouterr()
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert contexts.read().current == "vision-dev"


def test_a_pipeline_of_this_machine_that_is_not_there_leaves_no_folder(tmp_path, capsys):
    missing = tmp_path / "a folder" / "pipeline.json"
    for arguments in (["use", missing.as_uri()], ["status", "tiles", "--pipeline", str(missing)]):
        assert main(arguments) == 2
        assert f"{missing.as_uri()} does not exist. Give" in capsys.readouterr().err
    assert not missing.parent.exists()


def test_a_name_that_could_be_a_uri_is_refused(uris, capsys):
    assert main(["use", uris["dev"], "--name", "a/b"]) == 2
    assert "--name is 'a/b'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pipelines": 3}', '{"pipelines": {}, "current": "gone"}'])
def test_a_damaged_file_is_named(uris, capsys, text):
    contexts.path().parent.mkdir(parents=True)
    contexts.path().write_text(text)
    assert main(["status", "tiles"]) == 2
    assert f"{contexts.path()} is damaged. Remove it" in capsys.readouterr().err
    assert contexts.names() == []


def test_a_folder_that_cannot_be_used_is_named(uris, capsys, tmp_path):
    (tmp_path / "user-config").write_text("a file")
    assert main(["use", uris["dev"]]) == 2
    assert f"{contexts.path()} cannot be read: Not a directory. Give --pipeline" in capsys.readouterr().err
    with pytest.raises(CallerError, match=r"cannot be written: .* Use TIDEMILL_PIPELINE instead"):
        contexts.write(contexts.Contexts())


# ---- completion ------------------------------------------------------------------------------------------------------


def completed(words, **environment):
    """What the program answers to a shell that completes the last of some words."""
    found = subprocess.run(
        [sys.executable, "-c", "import sys; from tidemill.cli import main; sys.exit(main())"],
        env={
            **os.environ,
            "_TIDEMILL_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.partition(",")[2] for line in found.stdout.splitlines()]


def test_verbs_options_and_contexts_are_completed(uris):
    main(["use", uris["dev"]])
    main(["use", uris["prod"]])
    assert completed(["tidemill", "sub"]) == ["submit"]
    assert completed(["tidemill", "status", "--pi"]) == ["--pipeline"]
    assert completed(["tidemill", "use", "vision-p"]) == ["vision-prod"]
    assert completed(["tidemill", "status", "--pipeline", "vi"]) == ["vision-dev", "vision-prod"]
    assert completed(["tidemill", "completion", "z"]) == ["zsh"]
    assert completed(["tidemill", "run", "--items", "a", "--items", "b", "--attem"]) == ["--attempts"]
    # Where nothing else is known, the shell completes files.
    assert completed(["tidemill", "nonsense", "x"]) == ["x"]


def test_jobs_of_a_store_of_this_machine_are_completed(tmp_path, monkeypatch):
    monkeypatch.delenv("TIDEMILL_PIPELINE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert completed(["tidemill", "status", "wo"]) == ["wo"]
    for folder, file in (("words-0a1b2c3d", "job.json"), ("tiles-0a1b2c3d", "job.json"), ("words-half", "manifest")):
        (tmp_path / "a b/jobs" / folder).mkdir(parents=True)
        (tmp_path / "a b/jobs" / folder / file).touch()
    here = {"TIDEMILL_PIPELINE": f"file://{tmp_path}/a%20b/pipeline.json"}
    assert completed(["tidemill", "fetch", "wo"], **here) == ["words", "words-0a1b2c3d"]
    (tmp_path / "a b").rename(tmp_path / ".tidemill")
    (tmp_path / ".tidemill/pipeline.json").touch()
    assert completed(["tidemill", "status", ""]) == ["tiles", "tiles-0a1b2c3d", "words", "words-0a1b2c3d"]


def test_jobs_of_a_cloud_are_completed_as_commands_have_seen_them(tmp_path, monkeypatch):
    """No cloud is asked: there is none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cloud = "s3://nowhere/pipeline.json"
    monkeypatch.setenv("TIDEMILL_PIPELINE", cloud)
    assert completed(["tidemill", "status", "wo"]) == ["wo"]
    note_jobs(cloud, ["words-0a1b2c3d", "tiles-0a1b2c3d"])
    note_jobs(cloud, ["words-11111111"])
    assert known_jobs(cloud) == ["words-11111111", "words-0a1b2c3d", "tiles-0a1b2c3d"]
    assert completed(["tidemill", "status", "wo"]) == ["words", "words-0a1b2c3d", "words-11111111"]
    assert completed(["tidemill", "status", "ti"], TIDEMILL_PIPELINE="s3://other/pipeline.json") == ["ti"]
    note_jobs(cloud, (), gone=["words-0a1b2c3d"])
    assert completed(["tidemill", "rm", "words-"]) == ["words-11111111"]


def test_commands_note_the_jobs_of_a_cloud(installed, tmp_path, monkeypatch, capsys):
    """The pipeline of the test is a folder under the name of a cloud's."""
    found, _ = installed()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDEMILL_PIPELINE", "s3://store/pipeline.json")
    loaded = Pipeline.load(found.uri)
    monkeypatch.setattr(Pipeline, "load", lambda uri: loaded)
    seen = []
    for name in ("a", "b"):
        assert main(["submit", "--queue", "cpu", "--name", name, "s3://raw/1.jpg", "--", "x", "{uri}"]) == 0
        seen.insert(0, capsys.readouterr().out.strip())
    assert known_jobs("s3://store/pipeline.json") == seen
    assert main(["cancel", seen[1]]) == 0
    assert main(["rm", seen[1], "--yes"]) == 0
    assert known_jobs("s3://store/pipeline.json") == seen[:1]
    assert main(["jobs"]) == 0
    assert known_jobs("s3://store/pipeline.json") == seen[:1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_TIDEMILL_COMPLETE={shell}_complete" in script
    program = shutil.which(shell)
    if program:
        subprocess.run([program, "-n"], input=script, text=True, timeout=60, check=True)


def test_bash_completes_with_the_script(uris, tmp_path):
    """The function that the script defines, called as bash does."""
    program = tmp_path / "bin" / "tidemill"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom tidemill.cli import main\nraise SystemExit(main())\n")
    program.chmod(0o755)
    script = (
        'eval "$(tidemill completion bash)"; COMP_WORDS=(tidemill st); COMP_CWORD=1; '
        '_tidemill_completion tidemill; echo "${COMPREPLY[@]}"'
    )
    found = subprocess.run(
        [shutil.which("bash") or "bash", "-c", script],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout == "status\n"


def test_bash_completes_files_where_nothing_else_is_known(uris, tmp_path):
    """Keys typed into a shell on a terminal of its own."""
    program = tmp_path / "bin" / "tidemill"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom tidemill.cli import main\nraise SystemExit(main())\n")
    program.chmod(0o755)
    for name in ("paths.txt", "work.py"):
        (tmp_path / name).touch()
    (tmp_path / "code").mkdir()
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        [shutil.which("bash") or "bash", "--norc", "--noprofile", "-i"],
        cwd=tmp_path,
        env={"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(Path.cwd()), "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)

    def seen(keys, expected):
        """Type, and read what the terminal shows until it has what is expected."""
        os.write(ours, keys.encode())
        shown = ""
        while expected not in shown and select.select([ours], [], [], 60)[0]:
            shown += os.read(ours, 4096).decode()
        assert expected in shown

    try:
        seen('eval "$(tidemill completion bash)"; echo rea""dy\r', "ready")
        for typed, rest in [("--items pat", "hs.txt"), ("--code co", "de/"), ("a -- python3 wor", "k.py")]:
            seen(f"tidemill run {typed}\t", f"{typed}{rest}")
            seen("\x15", "")
        seen("tidemill expl\t", "explain")
    finally:
        shell.kill()
        shell.wait(timeout=60)
        os.close(ours)


def test_secrets_of_this_machine_are_completed(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    LocalSecrets().change({"HF_TOKEN": "a", "HOST_KEY": "b", "WANDB_KEY": "c"})
    option = next(each for each in run.command.params if each.name == "secrets")
    with click.Context(run.command) as ctx:
        assert [each.value for each in option.shell_complete(ctx, "H")] == ["HF_TOKEN", "HOST_KEY"]
        (tmp_path / "tidemill" / "secrets.json").write_text("{")
        assert option.shell_complete(ctx, "H") == []
