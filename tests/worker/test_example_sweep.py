"""The sweep as its README says to run it, on fewer epochs. Not proved here: its run on a cloud."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.worker.test_local_run import SECONDS, Here, here

__all__ = ["here"]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sweep"


def commands():
    """The commands of the README, in the order in which people type them."""
    text = (EXAMPLE / "README.md").read_text()
    (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line)[1:] for line in block.replace("\\\n", "").splitlines()]


def test_the_sweep_runs_as_its_readme_says_and_resumes(here: Here):
    shutil.copytree(EXAMPLE, here.folder / "examples" / "sweep", ignore=shutil.ignore_patterns("__pycache__"))
    small = {"epochs=100": "epochs=12", "4s": "3s"}
    train, metrics, fetch = ([small.get(word, word) for word in words] for words in commands())
    trained = here.type(*train)
    assert trained.returncode == 0, trained.stderr
    best = here.type(*metrics, "--json")
    rows = [json.loads(line) for line in best.stdout.splitlines()]
    assert len(rows) == 6
    losses = [row["metrics"]["loss"]["lowest"] for row in rows]
    assert losses == sorted(losses)
    assert {row["metrics"]["loss"]["last_step"] for row in rows} == {12}
    assert here.type(*fetch).returncode == 0
    models = list((here.folder / "models").rglob("model.json"))
    assert len(models) == 6
    # The best model is the one that an undisturbed training makes.
    found, meta = here.folder / "alone", rows[0]["meta"]
    found.mkdir()
    words = ["--lr", meta["lr"], "--seed", str(meta["seed"]), "--epochs", "12"]
    where = ["--checkpoints", str(found), "--model", str(found / "model.json")]
    subprocess.run([sys.executable, str(EXAMPLE / "train.py"), *words, *where], timeout=SECONDS, check=True)
    alone = (found / "model.json").read_text()
    assert any(model.read_text() == alone for model in models)
