"""Programs that attack their own output folder, bad URIs, bad programs: each such item fails with its reason and one
line that says why, and its neighbours succeed. Workers, programs and the store on disk are real; a case of this table
is an item of one job, so that all of them are neighbours. What S3 and GCS refuse is not here (`tests/store`)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.worker.containers import alive, end_process, until
from tidemill.descriptor import WorkerExit
from tidemill.removal import remove
from tidemill.store import Store, Stores
from tidemill.store import store as store_module
from tidemill.worker.items import outputs
from tidemill.worker.items.staging import Staging
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.programs.faults import ItemError
from tidemill.worker.programs.supervisor import Limits, timed_out

GOOD = 'echo fine > "$O/fine"'
DEEP = 'cd "$O"; n=$(printf %0200d 0); for i in $(seq 25); do mkdir $n; cd $n; done; echo x > f'
NAMES = ["全角\u3000空白", "a\u00a0b", "a\u202fb", "a\u200bb", "👩\u200d🔬", "a%2Fb", "x y#?", "..x", ".hidden", "\\"]
"""Names that S3, GCS and obstore take."""

# The program, the reason, the first line of the error.
ATTACKS: list[tuple[str, str, str]] = [
    ('rmdir "$O"', "output", "the output folder is gone: the program removed or moved it"),
    ('mv "$O" "$O.done"', "output", "the output folder is gone: the program removed or moved it"),
    ('rm -rf "${O%/*}"', "output", "the output folder is gone: the program removed or moved it"),
    ('rmdir "$O"; echo x > "$O"', "output", "the program replaced the output folder by something else"),
    ('rmdir "$O"; ln -s /etc "$O"', "output", "the program replaced the output folder by something else"),
    ('rmdir "$O"; ln -s output "$O"', "output", "the program replaced the output folder by something else"),
    ('rmdir "$O"; mkfifo "$O"', "output", "the program replaced the output folder by something else"),
    ('ln -s l "$O/l"', "output", "'l' is a link that cannot be followed: Too many levels of symbolic links"),
    (
        'ln -s b "$O/a"; ln -s a "$O/b"',
        "output",
        "is a link that cannot be followed: Too many levels of symbolic links",
    ),
    ('ln -s nowhere "$O/l"', "output", "'l' is a link that leads nowhere"),
    ('ln -s /etc/passwd "$O/l"', "output", "'l' is a link that leads outside the output folder"),
    ('ln -s /etc "$O/l"', "output", "'l' is a link that leads outside the output folder"),
    ('ln -s /nowhere "$O/l"', "output", "'l' is a link that leads outside the output folder"),
    ('ln -s /dev/null "$O/null"', "output", "'null' is a link that leads outside the output folder"),
    ('mkdir "$O/d"; ln -s "$PWD" "$O/d/l"', "output", "'d/l' is a link that leads outside the output folder"),
    ('ln -s . "$O/l"', "output", "'l' is a link to a folder that contains it"),
    ('mkdir "$O/d"; ln -s .. "$O/d/l"', "output", "'d/l' is a link to a folder that contains it"),
    (
        'mkdir "$O/c" "$O/d"; ln -s ../d "$O/c/l"; ln -s ../c "$O/d/l"',
        "output",
        "is a link to a folder that contains it",
    ),
    ('mkfifo "$O/p"', "output", "'p' is a FIFO, neither a file nor a folder"),
    ('mkfifo "$O/p"; ln -s p "$O/l"', "output", "is a FIFO, neither a file nor a folder"),
    (
        "python3 -c \"import socket as s, os; os.chdir(os.environ['O']); s.socket(s.AF_UNIX).bind('s')\"",
        "output",
        "'s' is a socket, neither a file nor a folder",
    ),
    ('touch "$O/$(printf "\\377")"', "output", r"'\udcff' is not UTF-8, so it cannot be the name of an object"),
    (
        'touch "$O/$(printf "a\\tb")"',
        "output",
        r"'a\tb' has a control character, so it cannot be the name of an object",
    ),
    ('touch "$O/$(printf %0254d 0)"', "output", "is a name of 254 bytes; a store on disk takes 253"),
    ('touch "$O/x#1"', "output", "'x#1' ends in # and a number; a store on disk keeps such names for itself"),
    (DEEP, "output", "the output folder cannot be read: File name too long: "),
    ("echo the reason >&2; exit 3", "exit", "the reason"),
    ("exit 3", "exit", "exit code 3"),
    ("kill -KILL $$", "signal", "killed by SIGKILL"),
    ("no-such-program-here", "exit", "no-such-program-here: not found"),
]

# Items that are uploaded whole: the program, the names.
SOUND: list[tuple[str, set[str]]] = [
    (GOOD, {"fine"}),
    ("true", set()),
    ('mkdir "$O/d"; echo x > "$O/d/f"; ln -s d "$O/latest"; ln -s d/f "$O/f"', {"d/f", "latest/f", "f"}),
    ('mkdir -p "$O/a" "$O/b"; echo x > "$O/b/f"; ln -s ../b "$O/a/l"; ln -s a "$O/c"', {"b/f", "a/l/f", "c/l/f"}),
    (f'cd "$O"; touch {" ".join(f"{chr(39)}{name}{chr(39)}" for name in NAMES)}', set(NAMES)),
    ('touch "$O/$(printf %0253d 0)"', {"0" * 253}),
    ('cd "$O"; seq 2000 | xargs touch', {str(n) for n in range(1, 2001)}),
    ('(setsid sh -c "while :; do echo x >> $O/f; done" &); until test -s "$O/f"; do :; done', {"f"}),
]

if os.geteuid() == 0:
    # Of another user's items they are the failure: see `AS_A_USER`.
    SOUND += [('mkdir "$O/d"; echo x > "$O/d/f"; chmod 0 "$O/d/f" "$O/d"', {"d/f"}), ('chmod 0 "${O%/*}"', set())]


def test_a_program_that_attacks_its_output_folder_fails_alone(team):
    """Every second item is a good one; three slots, so that attacks run beside each other."""
    scripts = [script for attack, *_ in ATTACKS for script in (attack, GOOD)]
    job = team.job(scripts, ["sh", "-c", 'O="$TIDEMILL_OUTPUT"; export O; eval "$TIDEMILL_URI"'], slots=3)
    ran = job.run()
    assert ran.code == WorkerExit.DONE, ran.lines[-3:]
    outcomes = job.outcomes()
    assert [o.index for o in outcomes] == list(range(len(scripts)))
    found = [(o.uri, o.reason, (o.error or "").splitlines()[0]) for o in outcomes[::2]]
    assert [one for one, (script, reason, line) in zip(found, ATTACKS, strict=True) if line not in one[2]] == []
    assert [one[:2] for one in found] == [(script, reason) for script, reason, _ in ATTACKS]
    assert all(o.status == "failed" and o.output is None for o in outcomes[::2])
    assert all(job.outputs(o) == {"fine": b"fine\n"} for o in outcomes[1::2])
    assert list((team.scratch / "workers").iterdir()) == []


def test_what_can_be_uploaded_is_uploaded_whole(team):
    job = team.job([script for script, _ in SOUND], ["sh", "-c", 'O="$TIDEMILL_OUTPUT"; eval "$TIDEMILL_URI"'], slots=2)
    assert job.run().code == WorkerExit.DONE
    outcomes = job.outcomes()
    assert [(o.uri, o.error) for o in outcomes] == [(script, None) for script, _ in SOUND]
    assert [set(job.outputs(o)) if o.output else set() for o in outcomes] == [names for _, names in SOUND]


# What the item names, the first line of the error after "<item> cannot be fetched: ".
BUCKET = "with a bucket of letters, digits, '.', '_', ':' and '-'. Fill in the bucket."
BAD_INPUTS = [
    ("s3://[BUCKET]/x.jpg", BUCKET),
    ("s3://[x", BUCKET),
    ("s3://{bucket}/x", BUCKET),
    ("gs://$BUCKET/x", BUCKET),
    ("gs://", BUCKET),
    ("s3://bucket/", "it names a bucket, not an object"),
    ("s3://bucket/a//b", "has an empty, `.` or `..` part or a control character"),
    ("s3://bucket/../x", "has an empty, `.` or `..` part or a control character"),
    ("http://example.com/x", "it must be an s3://, gs:// or file:// URI, or a path. Give such a URI."),
    ("file://[x/y", "it names the host '[x'; a path begins after three slashes: file:///[x/y"),
    ("file://data/x", "it names the host 'data'; a path begins after three slashes: file:///data/x"),
    ("file:///tmp/a%00b", "embedded null byte"),
    ("file:///nowhere/x", "No such file or directory"),
    ("relative.txt", "No such file or directory"),
    ("/etc/passwd/x", "Not a directory"),
    ("/" + "n" * 300, "File name too long"),
    ("/tmp", "not a plain file"),
    ("/dev/zero", "not a plain file"),
    ("{here}/fifo", "not a plain file"),
    ("{here}/loop", "Too many levels of symbolic links"),
]


def test_an_item_that_cannot_be_fetched_fails_alone(team):
    os.mkfifo(team.root / "fifo")
    (team.root / "loop").symlink_to("loop")
    (team.root / "source").write_text("text")
    bad = [(uri.replace("{here}", str(team.root)), line) for uri, line in BAD_INPUTS]
    items = [item for uri, _ in bad for item in (uri, str(team.root / "source"))]
    job = team.job(items, ["cp", "{input}", "{output}/o"], slots=2, attempts=3)
    assert job.run().code == WorkerExit.DONE
    outcomes = job.outcomes()
    assert [(o.status, o.reason, o.attempts) for o in outcomes[::2]] == [("failed", "input", 1)] * len(bad)
    lines = [(o.error or "").splitlines()[0] for o in outcomes[::2]]
    wrong = [
        line
        for line, (uri, end) in zip(lines, bad, strict=True)
        if f"{uri} cannot be fetched: " not in line or end not in line
    ]
    assert wrong == []
    assert [o.status for o in outcomes[1::2]] == ["succeeded"] * len(bad)


def test_an_item_that_cannot_be_started_fails_alone(team):
    (team.root / "text").write_text("no program")
    (team.root / "broken").write_text("#!/no/such/interpreter\n")
    (team.root / "broken").chmod(0o755)
    (team.root / "binary").write_bytes(b"\x7fELF")
    (team.root / "binary").chmod(0o755)
    cases = [
        ("/no/such", "start", "/no/such did not start: No such file or directory"),
        (str(team.root), "start", f"{team.root} did not start: Permission denied"),
        (f"{team.root}/text", "start", f"{team.root}/text did not start: Permission denied"),
        (f"{team.root}/broken", "start", f"{team.root}/broken did not start: No such file or directory"),
        (f"{team.root}/binary", "start", f"{team.root}/binary did not start: Exec format error"),
        ("x" * 5000, "start", "did not start: File name too long"),
        ("a\0b", "input", "did not start: embedded null byte"),
        ("/\ud800", "input", "surrogates not allowed"),
    ]
    job = team.job([item for uri, *_ in cases for item in (uri, "/bin/true")], ["{uri}"], attempts=3)
    assert job.run().code == WorkerExit.DONE
    outcomes = job.outcomes()
    assert [(o.reason, o.attempts) for o in outcomes[::2]] == [(reason, 1) for _, reason, _ in cases]
    assert [
        o.error for o, (*_, line) in zip(outcomes[::2], cases, strict=True) if line not in (o.error or "")[-5000:]
    ] == []
    assert [o.status for o in outcomes[1::2]] == ["succeeded"] * len(cases)


WROTE = "the function wrote to the pipe on which its process answers"
FUNCTIONS: list[tuple[str, str, str]] = [
    ("shutil.rmtree(output)", "output", "the output folder is gone: the program removed or moved it"),
    ("os.rmdir(output); open(output, 'w')", "output", "the program replaced the output folder by something else"),
    ("os.mkfifo(output + '/p')", "output", "'p' is a FIFO, neither a file nor a folder"),
    ("os.symlink('l', output + '/l')", "output", "'l' is a link that cannot be followed"),
    ("open(os.fsencode(output) + bytes([47, 255]), 'w')", "output", "is not UTF-8"),
    ("shutil.rmtree(os.path.dirname(output))", "output", "the output folder is gone"),
    (
        "os.write(answers(), b'garbage' + NL)",
        "exception",
        "the function wrote to the pipe on which its process answers",
    ),
    ("os.write(answers(), b'[1]' + NL)", "exception", WROTE),
    (
        "os.write(answers(), b'[' * 9000 + NL)",
        "exception",
        "the function wrote to the pipe on which its process answers",
    ),
    ("os.write(answers(), b'x' * 3000000)", "exception", "the function closed or flooded the pipe"),
    ("os.close(answers()); time.sleep(300)", "exception", "the function closed or flooded the pipe"),
    ("os.closerange(3, 100); time.sleep(300)", "exception", "the function closed or flooded the pipe"),
    ("raise MemoryError", "exception", "Traceback"),
    ("raise ValueError(chr(0xd800))", "exception", "Traceback"),
    ("f = lambda: f(); f()", "exception", "Traceback"),
    ("os.abort()", "signal", "killed by SIGABRT"),
]
MODULE = """
import os, shutil, stat, sys, time
NL = bytes([10])

def answers():
    return int(sys.orig_argv[-1])

def work(uri, output):
    if uri == "good":
        open(os.path.join(output, "fine"), "w").write("fine")
        # A value that its reader could not follow, or that is not JSON, is not kept.
        return float("nan") if os.getpid() % 2 else [[[]]]
    exec(uri, globals(), {"output": output})
"""


def test_a_function_that_attacks_its_folder_or_its_pipe_fails_alone(here):
    (here.folder / "work.py").write_text(MODULE)
    (here.folder / "items.txt").write_text("".join(f"{script}\ngood\n" for script, *_ in FUNCTIONS))
    ran = here.run("--workers", "1", "--attempts", "1", "--items", "items.txt", "--function", "work:work")
    assert ran.returncode == 1, ran.stderr
    outcomes = here.outcomes()
    found = [(o.uri, o.reason, o.error or "") for o in outcomes[::2]]
    assert [one[:2] for one in found] == [(script, reason) for script, reason, _ in FUNCTIONS]
    assert [one for one, (*_, line) in zip(found, FUNCTIONS, strict=True) if line not in one[2]] == []
    assert [o.status for o in outcomes[1::2]] == ["succeeded"] * len(FUNCTIONS)
    assert all(Path((o.output or "").removeprefix("file://"), "fine").read_text() == "fine" for o in outcomes[1::2])


def test_a_run_ends_whatever_its_items_do_to_their_folders(here):
    attacks = ['rmdir "$1"', 'mv "$1" "$1.x"', 'ln -s l "$1/l"', 'mkfifo "$1/p"', "true"]
    (here.folder / "items.txt").write_text("".join(f"{attack}\n" for attack in attacks))
    command = ["sh", "-c", 'set -- "$TIDEMILL_OUTPUT"; eval "$TIDEMILL_URI"']
    ran = here.run("--items", "items.txt", "--attempts", "1", "--", *command)
    assert ran.returncode == 1, ran.stderr
    assert [(o.uri, o.reason) for o in here.outcomes()] == [
        *((attack, "output") for attack in attacks[:-1]),
        ("true", None),
    ]


def test_other_jobs_on_a_machine_go_on(team, gce):
    """A machine on GCP serves many jobs."""
    small = {"cpus": 0.25, "memory_mib": 64}
    bad = team.job(["s3://[BUCKET]/x", "file:///tmp/a%00b"], ["true", "{input}"], resources=small)
    gone = team.job(["a", "b"], ["sh", "-c", 'rmdir "$1"', "sh", "{output}"], resources=small)
    good = team.job(["a", "b", "c"], ["true"], resources=small)
    messages = [gce.publish(job, 0) for job in (bad, gone, good)]
    assert gce.run().code == WorkerExit.DONE
    assert [(message.acked, message.deliveries) for message in messages] == [(True, 1)] * 3
    assert [o.reason for job in (bad, gone, good) for o in job.outcomes()] == ["input"] * 2 + ["output"] * 2 + [
        None
    ] * 3


@pytest.fixture
def staging(tmp_path):
    scratch = Scratch(tmp_path / "scratch", "one")
    staging = Staging(Stores(Store.open(f"file://{tmp_path}/store")), scratch)
    (tmp_path / "output").mkdir()
    yield staging
    staging.close()
    scratch.close()


def test_a_file_that_grows_during_its_upload_fails_the_item(staging, tmp_path, monkeypatch):
    """The writer has to escape its item to live on; here it is a thread."""
    (tmp_path / "output/f").write_bytes(b"x" * 6_000_000)
    put = store_module._bounded

    def grows(verb, name, call):
        with (tmp_path / "output/f").open("ab") as file:
            file.write(b"more")
        return put(verb, name, call)

    monkeypatch.setattr(store_module, "_bounded", grows)
    with pytest.raises(ItemError, match="'f' changed during its upload: something still writes to it") as caught:
        staging.upload(tmp_path / "output", f"file://{tmp_path}/store/o/")
    assert (caught.value.reason, caught.value.final) == ("output", False)
    assert (tmp_path / "store/o/f").stat().st_size == 6_000_000


def test_uploads_are_begun_a_few_at_a_time(staging, tmp_path, monkeypatch):
    for n in range(300):
        (tmp_path / f"output/{n}").touch()
    begun, most, submit = [], [0], staging._pool.submit

    def counted(*args):
        begun.append(submit(*args))
        most[0] = max(most[0], sum(not one.done() for one in begun))
        return begun[-1]

    monkeypatch.setattr(staging._pool, "submit", counted)
    assert staging.upload(tmp_path / "output", f"file://{tmp_path}/store/o/") == 300
    assert len(list((tmp_path / "store/o").iterdir())) == 300
    assert most[0] <= 20


def test_links_cannot_multiply_files_without_bound(staging, tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "MAX_FILES", 1000)
    for n in range(20):
        (tmp_path / f"output/{n}").mkdir()
        (tmp_path / f"output/{n}/f").touch()
        if n:
            (tmp_path / f"output/{n}/a").symlink_to(f"../{n - 1}")
            (tmp_path / f"output/{n}/b").symlink_to(f"../{n - 1}")
    with pytest.raises(ItemError, match="there are more than 1000 output files"):
        staging.upload(tmp_path / "output", f"file://{tmp_path}/store/o/")
    assert not (tmp_path / "store/o").exists()


AS_A_USER = """
import os, sys, pathlib
from tidemill.store import Stores
from tidemill.removal import remove
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot
from tidemill.worker.items.staging import Staging
here = pathlib.Path(sys.argv[1])
os.setuid(65534)
staging = Staging(Stores(), Scratch(here / "scratch", "one"))
slot = Slot(0, here / "slot")
for attack in ("d", "f", "."):
    output = slot.empty("output")
    (output / "d").mkdir()
    (output / "d/f").write_text("x")
    (output / "f").write_text("x")
    (output / attack).chmod(0)
    try:
        print(staging.upload(output, f"file://{here}/store/"))
    except Exception as error:
        print(error.reason, error.final, error)
    print(os.listdir(slot.empty("output")))
slot.folder.chmod(0)
print(os.listdir(slot.empty("output")))
(slot.folder / "output").rmdir()
(slot.folder / "output").symlink_to("/tmp")
print(os.listdir(slot.empty("output")))
remove(slot.folder)
print(slot.folder.exists())
os._exit(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_folders_that_cannot_be_read_fail_the_item_of_a_user():
    """Root reads everything; images often have another user."""
    # Not in pytest's folder: each session closes that to other users when it starts.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        ran = subprocess.run(
            [sys.executable, "-c", AS_A_USER, folder], capture_output=True, text=True, timeout=60, check=False
        )
    lines = [line.replace(folder, "") for line in ran.stdout.splitlines()]
    assert ran.stderr == ""
    assert lines[1::2] == ["[]", "[]", "[]", "[]", "False"][: len(lines[1::2])]
    refused = [line for line in lines if line.startswith("output True")]
    assert len(refused) == 3
    assert all("Permission denied" in line for line in refused)


def test_what_an_item_leaves_behind_ends_with_it_while_others_run(team):
    """One keeps its environment, one clears it, and a neighbour runs on: the second may be the neighbour's."""
    gate, kept, cleared = (team.root / name for name in ("gate", "kept", "cleared"))
    daemon = "(setsid {env} sh -c 'echo $$ > {file}; exec sleep 300' &)"
    leaves = daemon.format(env="", file=kept) + "; " + daemon.format(env="env -i PATH=$PATH", file=cleared)
    waits = f"until test -e {gate}; do sleep 0.05; done"
    last = f"until test -s {kept} -a -s {cleared}; do sleep 0.02; done"
    job = team.job([waits, f"{leaves}; {last}", "true"], ["sh", "-c", 'eval "$TIDEMILL_URI"'], slots=2)
    worker = job.start()
    pids: list[int] = []
    try:
        until(lambda: kept.exists() and kept.read_text() and cleared.exists() and cleared.read_text(), "the daemons")
        pids = [int(kept.read_text()), int(cleared.read_text())]
        until(lambda: not alive(pids[0]), "the end of what names its slot")
        assert worker.poll() is None
        gate.touch()
        assert worker.wait(timeout=90) == WorkerExit.DONE
        assert not alive(pids[1])
        assert [o.status for o in job.outcomes()] == ["succeeded"] * 3
    finally:
        for pid in pids:
            end_process(pid)


def test_a_timeout_near_the_memory_limit_says_both():
    limits = Limits(60, memory_mib=200)
    assert timed_out(limits, 100) == "killed: its time limit is 60 s"
    assert "it held 190 MiB, its memory limit is 200 MiB: it may lack memory" in timed_out(limits, 190)


def test_a_tree_is_removed_however_deep_it_is():
    # Not in pytest's folder: what is left there after a failure could not be removed by pytest.
    folder = tempfile.mkdtemp()
    top = os.open(folder, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d" * 200, dir_fd=top)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(top)
    remove(Path(folder))
    assert not os.path.exists(folder)
