"""Adds up the numbers from 1 to 200, and keeps the step and the sum in its state folder as frameworks keep checkpoints.

Arguments: the state folder, the output folder, and how; ``check`` ends it when it has read what is there. It ends with
``mixed`` when it finds parts of two checkpoints.
"""

import mmap
import pathlib
import shutil
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Callable
from itertools import count

STEPS, EVERY = 200, 20
Sums = tuple[int, int]
state, output = map(pathlib.Path, sys.argv[1:3])


def put(name: str, number: int) -> None:
    new = state / f".{name}"
    new.parent.mkdir(exist_ok=True)
    new.write_text(f"{number}")
    new.rename(state / name)


def get(name: str) -> int:
    return int((state / name).read_text())


def mark() -> None:
    (state / ".commit").touch()


def marked() -> None:
    mark()
    while (state / ".commit").exists():
        time.sleep(0.01)


def pair(step: int, total: int) -> None:
    """Two files and a mark, and on it goes. The second file of the next checkpoint comes much later."""
    put("model", step)
    if step > EVERY:
        time.sleep(0.3)
    put("optimizer", total)
    mark()


def found_pair() -> Sums:
    return get("model"), get("optimizer")


def logged(step: int, total: int) -> None:
    """The same, beside two logs that are written all the time: one stays open, one is opened for each line."""
    pair(step, total)


def log(begins: int) -> None:
    with (state / "train.log").open("a", buffering=1) as log:
        for number in count(begins):
            log.write(f"{number:08}\n")
            with (state / "metrics.csv").open("a") as metrics:
                metrics.write(f"{number:08}\n")
            time.sleep(0.01)


def logged_so_far(name: str) -> int:
    """One more than the last line. A snapshot may have cut one."""
    path = state / name
    lines = path.read_text().split("\n") if path.exists() else []
    if lines and lines[-1]:
        with path.open("a") as log:
            log.write("\n")
    numbers = [int(line) for line in lines if len(line) == 8]
    if numbers != sorted(set(numbers)):
        sys.exit(f"mixed lines of {name}")
    return max(numbers, default=0) + 1


def checkpoints() -> list[pathlib.Path]:
    return sorted(state.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))


def folders(step: int, total: int) -> None:
    """A folder for each checkpoint, made before its files; the newest two stay."""
    (state / f"checkpoint-{step}").mkdir()
    time.sleep(0.05)
    (state / f"checkpoint-{step}/model").write_text(f"{step}")
    (state / f"checkpoint-{step}/optimizer").write_text(f"{total}")
    for path in checkpoints()[:-2]:
        shutil.rmtree(path)
    marked()


def found_folder() -> Sums:
    newest = checkpoints()[-1]
    return int((newest / "model").read_text()), int((newest / "optimizer").read_text())


def renamed(step: int, total: int) -> None:
    """The same, renamed when it is complete, with a log beside it. There is no mark."""
    new = state / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    (new / "model").write_text(f"{step}")
    (new / "optimizer").write_text(f"{total}")
    new.rename(state / f"checkpoint-{step}")
    for path in checkpoints()[:-2]:
        shutil.rmtree(path)
    with (state / "log").open("a") as log:
        log.write(f"step {step}\n")
    time.sleep(0.4)


def database(step: int, total: int) -> None:
    """Two rows of SQLite, in two transactions."""
    with sqlite3.connect(state / "db") as base:
        base.execute("CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, number INTEGER)")
        base.execute("INSERT OR REPLACE INTO kept VALUES ('model', ?)", (step,))
    with base:
        base.execute("INSERT OR REPLACE INTO kept VALUES ('optimizer', ?)", (total,))
    base.close()
    marked()


def found_rows() -> Sums:
    base = sqlite3.connect(state / "db")
    rows = dict(base.execute("SELECT name, number FROM kept"))
    base.close()
    return rows["model"], rows["optimizer"]


def mapped(step: int, total: int) -> None:
    """A mapping that is never flushed."""
    struct.pack_into("QQ", memory(), 0, step, total)
    marked()


def memory(opened: list[mmap.mmap] = []) -> mmap.mmap:  # noqa: B006 - it stays open
    if not opened:
        path = state / "memory"
        if not path.exists():
            path.write_bytes(b"\0" * 16)
        with path.open("r+b") as file:
            opened.append(mmap.mmap(file.fileno(), 16))
    return opened[0]


def found_memory() -> Sums:
    step, total = struct.unpack_from("QQ", memory(), 0)
    return step, total


WAYS: dict[str, tuple[Callable[[int, int], None], Callable[[], Sums]]] = {
    "pair": (pair, found_pair),
    "logged": (logged, found_pair),
    "folders": (folders, found_folder),
    "renamed": (renamed, found_folder),
    "database": (database, found_rows),
    "mapped": (mapped, found_memory),
}


def main() -> None:
    save, find = WAYS[sys.argv[3]]
    names = {path.name for path in state.iterdir()}
    # What is there before the first checkpoint may have been saved, too.
    step, total = find() if names - {"tokenizer", "train.log", "metrics.csv", "log", "new"} else (0, 0)
    print("start", step, flush=True)
    if sys.argv[3] == "logged":
        begins = max(map(logged_so_far, ("train.log", "metrics.csv")))
        threading.Thread(target=log, args=[begins], daemon=True).start()
    if total != step * (step + 1) // 2:
        sys.exit(f"mixed {step} {total}")
    if not names:
        # Never written again.
        (state / "tokenizer").write_text("words")
    elif "tokenizer" not in names:
        sys.exit("mixed: the tokenizer is gone")
    if "check" in sys.argv:
        return
    while step < STEPS:
        step += 1
        total += step
        time.sleep(0.01)
        if step % EVERY == 0:
            save(step, total)
            print("saved", step, flush=True)
    (output / "weights").write_text(f"{total}")


if __name__ == "__main__":
    main()
