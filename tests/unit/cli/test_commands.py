"""The command line over a folder and a queue in memory. What this cannot prove: a login, a cloud, a real terminal."""

import json
import os
import subprocess
import sys

import pytest

from tidemill.cli import main, show
from tidemill.cli.app import after_interrupt
from tidemill.cli.commands import submit, train
from tidemill.cli.options import as_typed, flags_of, message_of
from tidemill.cli.show import mebibytes, show_facts
from tidemill.client import Pipeline
from tidemill.client.rounds import deliveries
from tidemill.client.watch.live import Lines
from tidemill.clouds.account import LogLine
from tidemill.errors import CallerError, CloudError
from tidemill.services.backend import QueueState

HEAVY = ("boto3", "botocore", "obstore", "rich", "pydantic", "zstandard", "tidemill.client", "tidemill.job")


@pytest.fixture
def stack(tmp_path, monkeypatch, installed):
    (tmp_path / "tiles.txt").write_bytes("\ufeffs3://raw/0.jpg\r\n\r\ns3://raw/ü.jpg\ns3://raw/2.jpg".encode())
    _, backend = installed()
    monkeypatch.delenv("TIDEMILL_DEBUG", raising=False)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.chdir(tmp_path)
    return backend


SUBMIT = ["submit", "--queue", "cpu", "--name", "tiles", "--items", "tiles.txt", "--chunk-size", "2"]
PROGRAM = ["--", "python3", "x.py", "{input}", "{output}", "--json"]


def submitted(capsys, monkeypatch=None):
    assert main([*SUBMIT, "--json", *PROGRAM]) == 0
    return json.loads(capsys.readouterr().out)["job"]


def pipeline():
    return Pipeline.load(os.environ["TIDEMILL_PIPELINE"])


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"], ["submit", "--help"]])
def test_help_imports_neither_a_cloud_nor_anything_heavy(arguments):
    code = (
        "import sys; from tidemill.cli import main; code = main(); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], code)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.splitlines()[-1] == "[] 0"


@pytest.mark.parametrize(
    ("module", "others"),
    [
        ("tidemill.worker.__main__", ("asyncio", "boto3", "rich", "tidemill.client", "tidemill.explain")),
        (
            "tidemill.client",
            (
                "boto3",
                "sqlite3",
                "tidemill.client.results.log_lines",
                "tidemill.client.sending.submit",
                "tidemill.explain.facts",
                "tidemill.fleet",
                "tidemill.prices",
                "tidemill.state",
            ),
        ),
    ],
)
def test_what_only_others_need_is_not_imported(module, others):
    code = f"import sys; import {module}; print([name for name in {others!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_run_imports_only_what_it_needs(tmp_path):
    others = (
        "boto3",
        "rich",
        "tidemill.client.results.log_lines",
        "tidemill.explain.facts",
        "tidemill.fleet",
        "tidemill.prices",
    )
    code = (
        "import sys; from tidemill.cli import main; code = main(); "
        f"print([name for name in {others!r} if name in sys.modules], code)"
    )
    (tmp_path / "items.txt").write_text("a\n")
    typed = ["run", "--items", "items.txt", "--workers", "1", "--", "/bin/true"]
    found = subprocess.run(
        [sys.executable, "-c", code, *typed], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.splitlines()[-1] == "[] 0"


def test_a_ctrl_c_finds_main_soon():
    """What the entry loads before `main` can take in a Ctrl-C: each module is a moment that shows a traceback."""
    code = "import sys; before = set(sys.modules); import tidemill.cli; print(*sorted(set(sys.modules) - before))"
    run = [sys.executable, "-S", "-c", code]
    loaded = subprocess.run(run, check=True, capture_output=True, text=True, timeout=60)
    assert loaded.stdout.split() == ["__future__", "atexit", "gc", "tidemill", "tidemill.cli", "tidemill.version"]


def test_a_verbs_help_imports_no_cloud():
    code = "import sys; from tidemill.cli import main; main(['submit', '--help']); print('obstore' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.splitlines()[-1] == "False"


def test_submit_prints_the_job_alone_and_the_rest_on_stderr(stack, capsys):
    assert main([*SUBMIT, *PROGRAM]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("tiles-")
    assert out.count("\n") == 1
    first, outputs, last = err.splitlines()
    assert first == "3 items in 2 chunks of 2, queue cpu."
    assert outputs.startswith("Outputs go to /")
    assert outputs.endswith(f"/store/out/{out.strip()}")
    assert last == f"`tidemill wait {out.strip()}` watches it."
    spec = pipeline().job(out.strip()).spec
    assert spec.command == PROGRAM[1:]


def test_submit_reads_bom_windows_ends_and_empty_lines_as_people_mean_them(stack, capsys):
    job = pipeline().job(submitted(capsys))
    stack.run(pipeline(), job.id)
    assert [o.uri for o in job.results()] == ["s3://raw/0.jpg", "s3://raw/ü.jpg", "s3://raw/2.jpg"]


def test_submit_with_json_has_stable_keys(stack, capsys):
    assert main([*SUBMIT, "--json", *PROGRAM]) == 0
    made = json.loads(capsys.readouterr().out)
    assert list(made) == ["job", "queue", "items", "chunks", "chunk_size", "output", "enqueued"]
    assert (made["items"], made["chunks"], made["enqueued"]) == (3, 2, 1)
    assert made["output"].endswith(f"/store/out/{made['job']}")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["submit", "--items", "x", "wc", "-w"], "No such option '-w'. A program and its own options come after `--`"),
        (["submit", "--items", "x", "-w", "--", "wc"], "No such option '-w'. See"),
        (["fetch", "a", "b"], "Got unexpected extra argument (b). See"),
    ],
)
def test_a_program_without_dashes_is_told_how_to_type_it(stack, capsys, typed, says):
    assert main(typed) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["run", "--cores", "2"], "'--cores'. Did you mean '--workers'?"),
        (["run", "-j", "2"], "'-j'. Did you mean '--workers'?"),
        (["submit", "--n-jobs", "2"], "'--n-jobs'. Did you mean '--max-parallel'?"),
        (["submit", "--retries", "2"], "'--retries'. Did you mean '--attempts'?"),
        (["submit", "--mem", "2G"], "'--mem'. Did you mean '--memory'?"),
        (["run", "--itmes", "x"], "'--itmes'. Did you mean '--items'?"),
        (["results", "w", "-o", "x.csv"], "'-o'. Did you mean '--file'?"),
        (["clean", "--days", "30"], "'--days'. Did you mean '--older-than'?"),
        (["jobs", "--days", "30"], "'--days'. See"),
    ],
)
def test_an_option_of_another_tool_is_told_its_name_here(capsys, typed, meant):
    assert main(typed) == 2
    assert f"No such option {meant}" in capsys.readouterr().err


def test_nothing_to_show_is_said(stack, capsys):
    job = submitted(capsys)
    for typed, says in (
        (["results"], "No item of {} has ended so far."),
        (["results", "--failed"], "No item of {} has failed so far."),
        (["logs"], "{} has printed nothing so far."),
        (["logs", "--item", "0"], "The log has no such line of {} so far."),
    ):
        assert main([*typed, job]) == 0
        shown = capsys.readouterr()
        assert (shown.out, shown.err) == ("", says.format(job) + "\n")
        assert main([*typed, job, "--json"]) == 0
        assert capsys.readouterr() == ("", "")


def test_submit_reads_standard_input(stack, capsys, monkeypatch):
    lines = "\n".join(f"s3://raw/{n}.jpg" for n in range(5)).encode()
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": __import__("io").BytesIO(lines)}))
    assert main(["submit", "--queue", "cpu", "--items", "-", "--json", *PROGRAM]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 5


@pytest.mark.parametrize(("failed", "code"), [([], 0), ([1], 1)])
def test_status_and_wait_exit_with_1_when_items_failed(stack, capsys, failed, code):
    job = submitted(capsys)
    stack.run(pipeline(), job, fail_items=failed)
    assert main(["status", job, "--json"]) == code
    status = json.loads(capsys.readouterr().out)
    assert list(status) == [
        "job",
        "state",
        "items",
        "succeeded",
        "failed",
        "remaining",
        "chunks",
        "reclaims",
        "rounds",
        "note",
        "start_failures",
        "items_a_second",
        "seconds_left",
        "consumption",
        "suggestion",
        "fleet_errors",
        "run_command",
        "again",
        "spent",
        "waits_for",
        "saved",
        "explained",
        "told",
        "final",
        "shared",
        "origins",
        "first_item_seconds",
        "ended",
    ]
    assert (status["state"], status["failed"], status["ended"]) == (
        "failed" if failed else "succeeded",
        len(failed),
        True,
    )
    assert main(["wait", job, "--json"]) == code
    out, err = capsys.readouterr()
    figures = json.loads(out)["summary"]
    assert figures["attempts"] == 3 + 2 * len(failed)
    assert list(figures) == [
        "succeeded",
        "failed",
        "attempts",
        "reclaims",
        "cpu_seconds",
        "wall_seconds",
        "peak_memory_mib",
        "outputs",
    ]
    assert err.startswith(f"{job}: 3/3 items, ")


def test_wait_ends_with_a_table(stack, capsys):
    job = submitted(capsys)
    stack.run(pipeline(), job, fail_items=[1])
    assert main(["wait", job]) == 1
    shown, _, failures = capsys.readouterr().out.partition("\n\n")
    table = dict(line.split("  ", 1) for line in shown.splitlines())
    facts = {key.strip(): value.strip() for key, value in table.items()}
    assert (facts["state"], facts["succeeded"]) == ("failed, 1 of 3 items", "2")
    assert facts["outputs"].endswith(f"/store/out/{job} (2 of 3 items); `tidemill fetch {job}` brings them here")
    assert facts["attempts"] == "5"
    assert facts["CPU time"] == "0.75 s"
    assert facts["peak memory"] == "102 MiB"
    assert facts["failures"] == f"tidemill failures {job}; `tidemill retry {job} --failed` runs them again"
    assert [line.split() for line in failures.splitlines()] == [
        ["items", "group", "reason", "which", "message"],
        ["1", "349efea0ee", "exit", "1", "1", "ValueError:", "no"],
    ]


@pytest.mark.parametrize(("mib", "words"), [(0.0, "unknown"), (0.3, "< 1 MiB"), (1.0, "1 MiB"), (20480.0, "20.0 GiB")])
def test_memory_that_was_not_measured_is_not_called_nothing(mib, words):
    assert mebibytes(mib) == words


def test_wait_prints_a_line_only_when_something_changed(stack, capsys):
    job = submitted(capsys)
    lines = Lines(job)
    status = pipeline().job(job).status()
    lines(status)
    lines(status)
    stack.run(pipeline(), job)
    lines(pipeline().job(job).status())
    first, last = capsys.readouterr().err.splitlines()
    assert (first, last) == (f"{job}: 0/3 items, 2 chunks waiting", f"{job}: 3/3 items, succeeded")


def test_wait_names_lost_deliveries_when_it_may_not_repair(stack, capsys):
    job = submitted(capsys)
    stack.run(pipeline(), job, skip_chunks=[1])
    assert main(["wait", job, "--no-repair"]) == 1
    out, _ = capsys.readouterr()
    assert "lost" in out
    assert main(["status", job]) == 1
    assert "1 deliveries (chunks 1)" in capsys.readouterr().out


def test_a_job_for_prometheus(stack, capsys):
    job = submitted(capsys)
    stack.run(pipeline(), job, fail_items=[1])
    assert main(["status", job, "--format", "openmetrics"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f'tidemill_job_items{{job="{job}",queue="cpu",state="failed"}} 1' in lines
    assert main(["status", job, "--format", "openmetrics", "--json"]) == 2


def test_links_into_the_console(stack, capsys, monkeypatch):
    job = submitted(capsys)
    assert main(["status", job, "--links"]) == 0
    shown = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert list(shown) == ["queue", "log", "store", "outputs"]
    assert job in shown["store"]
    assert main(["status", job, "--links", "--format", "openmetrics"]) == 2
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:5000")
    assert main(["status", job, "--links"]) == 2


def test_results_are_a_table_or_json_lines(stack, capsys):
    job = submitted(capsys)
    stack.run(pipeline(), job, fail_items=[1])
    assert main(["results", job, "--json"]) == 0
    outcomes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(o["index"], o["status"]) for o in outcomes] == [(0, "succeeded"), (1, "failed"), (2, "succeeded")]
    assert main(["results", job, "--failed"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["item", "status", "attempts"]
    assert row.split()[:3] == ["1", "failed", "3"]
    assert row.endswith("exit: ValueError: no")


def test_a_terminal_gets_results_that_fit_with_names_below_their_source(stack, capsys, monkeypatch):
    many = [f"s3://raw/2026/scans/{n}/{'x' * 40}.tif" for n in range(3)]
    with open("tiles.txt", "w") as file:
        file.write("\n".join(many))
    job = submitted(capsys)
    stack.run(pipeline(), job, fail_items=[1])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "130")
    assert main(["results", job]) == 0
    told = capsys.readouterr()
    header, *rows = told.out.splitlines()
    assert header.split()[-4:] == ["name", "value", "or", "error"]
    assert max(map(len, [header, *rows])) <= 130
    assert [f"{n}/{'x' * 40}.tif" in row for n, row in enumerate(rows)] == [True] * 3
    assert "s3://" not in told.out
    assert rows[1].endswith("exit: ValueError: no")
    assert f"`tidemill fetch {job}` brings outputs here" in told.err
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["results", job, "--wide"]) == 0
    assert f"{many[0]}  s3://" in capsys.readouterr().out


def test_results_are_csv_on_stdout(stack, capfdbinary, tmp_path):
    (tmp_path / "items.jsonl").write_text('{"uri": "s3://raw/0.jpg", "lr": "=1"}')
    assert main(["submit", "--queue", "cpu", "--items", "items.jsonl", "--name", "m", "--", "x", "{uri}"]) == 0
    job = capfdbinary.readouterr().out.split()[0].decode()
    stack.run(pipeline(), job)
    assert main(["results", job, "--csv"]) == 0
    header, row, _ = capfdbinary.readouterr().out.decode().split("\n")
    assert (header.split(",")[-1], row.split(",")[-1]) == ("meta.lr", "=1")
    for form in ("csv", "jsonl"):
        assert main(["results", job, "--file", "found", "--format", form]) == 0
        assert b"1 cells begin with" in capfdbinary.readouterr().err or form == "jsonl"
        assert "=1" in (tmp_path / "found").read_text()
    assert main(["results", job, "--csv", "--json"]) == 2


@pytest.mark.parametrize("verb", ["results", "status", "jobs", "failures", "explain"])
def test_an_output_whose_reader_is_gone_or_whose_disk_is_full_leaves_no_traceback(stack, capsys, monkeypatch, verb):
    job = submitted(capsys)
    stack.run(pipeline(), job, fail_items=[1])
    words = [verb] if verb == "jobs" else [verb, job]
    for more in ([], ["--json"], *([["--csv"]] if verb == "results" else [])):
        for wrong in ([], ["--pipeline", "file:///nowhere/pipeline.json"]):
            read, write = os.pipe()
            os.close(read)
            full = os.open("/dev/full", os.O_WRONLY)
            for handle in (write, full):
                with monkeypatch.context() as patch, open(handle, "w", encoding="utf-8") as output:
                    patch.setattr(sys, "stdout", output)
                    code = main([*words, *more, *wrong])
                told = capsys.readouterr().err
                assert code in ((2, 3) if wrong else (0, 1) if handle == write else (1, 3)), told
                assert "unexpected" not in told


def test_cancel(stack, capsys):
    job = submitted(capsys)
    assert main(["cancel", job]) == 0
    assert capsys.readouterr().out == f"{job} is cancelled. `tidemill resume {job}` runs what is left.\n"
    assert main(["cancel", job, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"job": job, "cancelled": True, "arrays_ended": 0}


def test_a_finished_job_stays_finished_when_it_is_cancelled(stack, capsys):
    job = submitted(capsys)
    stack.run(pipeline(), job)
    assert main(["cancel", job]) == 0
    assert capsys.readouterr().out == f"{job} has already finished; there is nothing to cancel.\n"
    assert main(["status", job]) == 0


def test_wait_says_why_nothing_starts(stack, capsys):
    job = submitted(capsys)
    stack.state = QueueState(False, False, "disabled, invalid")
    Lines(job)(pipeline().job(job).status())
    assert capsys.readouterr().err == f"{job}: 0/3 items, 2 chunks waiting, queue 'cpu' is disabled, invalid\n"


def test_logs(stack, capsys):
    job = submitted(capsys)
    said = {"job": job, "item": 1, "attempt": 2, "stream": "stderr", "message": "no such band"}
    stack.lines = [LogLine(1.5, json.dumps(said), f"{job}-r0-a0:0", said)]
    assert main(["logs", job, "--item", "1"]) == 0
    assert capsys.readouterr().out == "1.2 stderr: no such band\n"
    told = {"job": job, "chunk": 0, "message": "chunk leased"}
    stack.lines.append(LogLine(1.6, json.dumps(told), f"{job}-r0-a0:0", told))
    stack.lines.append(LogLine(1.7, "Traceback", f"{job}-r0-a0:0"))
    assert main(["logs", job, "--item", "1", "--worker"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["1.2 stderr: no such band", "chunk 0 worker: chunk leased", "worker: Traceback"]
    del stack.lines[1:]
    assert main(["logs", job, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"at": "1970-01-01T00:00:01.500+00:00", **said}
    assert main(["logs", job, "--item", "3"]) == 2
    assert "item is 3; it must be from 0 to 2." in capsys.readouterr().err


def test_queues(stack, capsys):
    assert main(["queues"]) == 0
    header, cpu, gpu = capsys.readouterr().out.splitlines()
    assert header.split() == ["queue", "state", "item", "machines", "capacity", "images"]
    assert "1 CPU, 2048 MiB" in cpu
    assert "2 types, 8 to 16 CPUs, x86_64" in cpu
    assert "spot 64 CPUs" in cpu
    assert "1 GPU" in gpu
    assert "1 type, " in gpu
    stack.state = QueueState(False, False, "disabled, invalid")
    assert main(["queues", "--json"]) == 0
    queues = json.loads(capsys.readouterr().out)["queues"]
    assert [(q["name"], q["accepting"], q["state"]) for q in queues] == [
        ("cpu", False, "disabled, invalid"),
        ("gpu", False, "disabled, invalid"),
    ]


def test_a_refusal_of_the_cloud_exits_with_3(stack, capsys, monkeypatch):
    def refuse(queues):
        raise CloudError("batch:DescribeJobQueues is denied (no).", "Ask the stack's owner.")

    monkeypatch.setattr(stack, "queue_states", refuse)
    assert main(["queues"]) == 3
    assert capsys.readouterr().err == "tidemill: batch:DescribeJobQueues is denied (no). Ask the stack's owner.\n"


def test_an_unexpected_error_is_one_line_and_a_trace_on_request(stack, capsys, monkeypatch):
    def fail(queues):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(stack, "queue_states", fail)
    assert main(["queues"]) == 70
    error = capsys.readouterr().err
    assert error.startswith("tidemill: unexpected RuntimeError: two lines. ")
    assert "report it" in error.splitlines()[-1]
    monkeypatch.setenv("TIDEMILL_DEBUG", "1")
    with pytest.raises(RuntimeError):
        main(["queues"])


def test_an_interrupt_says_that_the_job_goes_on(stack, capsys, patch_time):
    job = submitted(capsys)

    def interrupt(seconds):
        raise KeyboardInterrupt

    patch_time(sleep=interrupt)
    assert main(["wait", job]) == 130
    assert "A submitted job continues" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (["run", "a"], " The same command continues."),
        (["train", "--here"], " The same command continues."),
        (["doctor"], ""),
        ([], ""),
    ],
)
def test_an_interrupt_of_a_command_here_promises_no_job_elsewhere(own, said):
    assert after_interrupt(own) == said


def test_a_reader_that_has_seen_enough_is_no_error(stack, tmp_path, capsys):
    job = submitted(capsys)
    stack.run(pipeline(), job)
    code = (
        "import sys; from tests.unit.client_fakes import FakeBackend; from tidemill.client import site; "
        "site.open_backend = lambda *_: FakeBackend(); from tidemill.cli import main; sys.exit(main())"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run(
        [sys.executable, "-c", code, "results", job, "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": root},
    )
    os.close(writing)
    assert (found.returncode, found.stderr) == (0, "")


def test_a_table_fits_the_terminal_and_a_pipe_gets_all_of_it(capsys, monkeypatch):
    rows = [("tiles-0a1b2c3d-long-name", "a" * 30, "s3://vision-dev-store/out/tiles-0a1b2c3d/17/")]
    show.show_table(("job", "text", "output"), rows)
    assert rows[0][2] in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    show.show_table(("job", "text", "output"), rows)
    line = capsys.readouterr().out.splitlines()[1]
    assert len(line) == 60
    assert line.startswith("tiles-0a1b2c3d-long-name  ")
    assert line.endswith("/17/")
    assert line.count("…") == 2


def test_states_stay_whole_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    show.show_table(("item", "state", "uri", "output"), [(0, "succeeded", "a" * 90, "b" * 90)])
    assert "succeeded" in capsys.readouterr().out.splitlines()[1]


def test_jobs_shows_whole_dates_on_80_columns(stack, capsys, monkeypatch):
    job = submitted(capsys)
    sent = pipeline().job(job).spec.created_at.strftime("%Y-%m-%d %H:%M")
    assert main(["jobs"]) == 0
    assert sent in capsys.readouterr().out
    assert main(["jobs", "--queue", "gone"]) == 0
    assert capsys.readouterr().err == "No job fits.\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["jobs"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.endswith("sent (UTC)")
    assert sent[5:] in row
    assert max(len(header), len(row)) <= 80


def test_no_color_is_honoured(stack, capsys, monkeypatch):
    assert show.color()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not show.color()


def test_a_queue_that_takes_no_jobs_is_told_before_anything_is_written(stack, capsys, tmp_path):
    stack.state = QueueState(False, True, "disabled, valid")
    assert main([*SUBMIT, *PROGRAM]) == 3
    assert capsys.readouterr().err == (
        "tidemill: queue 'cpu' takes no jobs: it is disabled, valid. Ask the stack's owner.\n"
    )
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["pipeline.json"]
    stack.state = QueueState(True, False, "enabled, invalid: no role")
    assert main([*SUBMIT, *PROGRAM]) == 0
    assert "queue 'cpu' is enabled, invalid: no role; the job waits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Send its folder: `code='.'`.", "Send its folder: `--code .`."),
        ("Give the folder: `code=DIR`.", "Give the folder: `--code DIR`."),
        ("Let them keep it: `state=True`, or `max_parallel`.", "Let them keep it: --state, or --max-parallel."),
        ("Give it as the only source: `items='job://t/*'`.", "Give it as the only source: `--items 'job://t/*'`."),
        ("`tidemill resume t` finishes it; `layout` stays.", "`tidemill resume t` finishes it; `layout` stays."),
    ],
)
def test_keywords_of_the_sdk_are_flags_on_the_command_line(text, typed):
    assert as_typed(text, flags_of(submit.command)) == typed


def test_a_training_keeps_state_unless_it_is_told_not_to():
    assert (
        as_typed("Let them keep it: `state=True`.", flags_of(train.command))
        == "Let them keep it: leave out --no-state."
    )


def test_an_error_names_the_key_of_a_flag():
    error = CallerError.about("env.1A", "2", "names made of letters", "Rename it.")
    assert message_of(error, flags_of(submit.command)).startswith("--env 1A is '2'; it must be names")
    assert message_of(error, {}).startswith("env.1A is '2'; it must be names")


@pytest.mark.parametrize(
    "line",
    [
        "logs tiles --item 1 --item 2",
        "estimate --count 5 --count 6",
        "jobs --limit 1 --limit=2",
        "run --items a.txt --items b.txt -- true",
        "advise --cpus 4 --cpus 8",
        "clean --older-than 1d --older-than 2d",
    ],
)
def test_an_option_with_one_value_that_is_given_twice_is_refused(stack, capsys, line):
    assert main(line.split()) == 2
    option = next(word for word in line.split() if word.startswith("--")).partition("=")[0]
    assert f"tidemill: {option} is given 2 times; give it once." in capsys.readouterr().err


def test_options_of_the_program_and_those_with_several_values_may_be_given_twice(stack, capsys, monkeypatch):
    assert main([*SUBMIT, "--env", "A=1", "--env", "B=2", "--", "x", "{uri}", "--queue", "a", "--queue", "b"]) == 0


def test_long_facts_go_on_in_their_column_and_commands_stay_whole(capsys, monkeypatch):
    command = "`tidemill retry tiles-0123abcd --failed --pipeline file:///a/long/place/pipeline.json --run`"
    facts = {"job": "x", "note": f"some words {'that are many ' * 8}and {command} does it again", "path": "/a" * 60}
    show_facts(facts)
    plain = capsys.readouterr().out
    assert len(plain.splitlines()) == 3
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    show_facts(facts)
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(" ".join(lines).split()) == " ".join(plain.split())
    assert all(len(line) <= 60 or command in line or "/a/a" in line for line in lines)
    assert all(line.startswith((*facts, " " * 6)) for line in lines)
    assert sum(command in line for line in lines) == 1
