"""Programs that attack their own output folder, bad URIs, bad programs: each such item fails with its reason and one
line that says why, and its neighbours succeed. Workers, programs and the store on disk are real; a case of this table
is an item of one job, so that all of them are neighbours. What S3 and GCS refuse is not here (`tests/store`)."""

from __future__ import annotations

import os

from tests.worker.test_local_run import here as here  # noqa: PLC0414 a fixture of this module too
from tidemill.descriptor import WorkerExit

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
    ("sleep 60", "timeout", "killed: its time limit is 5 s"),
]

# Items that are uploaded whole: the program, the names.
SOUND: list[tuple[str, set[str]]] = [
    (GOOD, {"fine"}),
    ("true", set()),
    ('mkdir "$O/d"; echo x > "$O/d/f"; ln -s d "$O/latest"; ln -s d/f "$O/f"', {"d/f", "latest/f", "f"}),
    ('mkdir -p "$O/a" "$O/b"; echo x > "$O/b/f"; ln -s ../b "$O/a/l"; ln -s a "$O/c"', {"b/f", "a/l/f", "c/l/f"}),
    ('mkdir "$O/d"; echo x > "$O/d/f"; chmod 0 "$O/d/f" "$O/d" || true', {"d/f"} if os.geteuid() == 0 else set()),
    (f'cd "$O"; touch {" ".join(f"{chr(39)}{name}{chr(39)}" for name in NAMES)}', set(NAMES)),
    ('touch "$O/$(printf %0253d 0)"', {"0" * 253}),
    ('chmod 0 "${O%/*}"', set()),
    ('cd "$O"; seq 2000 | xargs touch', {str(n) for n in range(1, 2001)}),
    ('(setsid sh -c "while :; do echo x >> $O/f; done" &); until test -s "$O/f"; do :; done', {"f"}),
]


def test_a_program_that_attacks_its_output_folder_fails_alone(team):
    """Every second item is a good one; three slots, so that attacks run beside each other."""
    scripts = [script for attack, *_ in ATTACKS for script in (attack, GOOD)]
    job = team.job(
        scripts, ["sh", "-c", 'O="$TIDEMILL_OUTPUT"; export O; eval "$TIDEMILL_URI"'], slots=3, timeout_seconds=5
    )
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
