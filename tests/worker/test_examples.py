"""The examples of real work as their READMEs say to run them, on small data. Not proved here: their run on a cloud."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from PIL import Image

from tests.worker.containers import until
from tests.worker.here import SECONDS, Here

ROOT = Path(__file__).resolve().parents[2]
SWEEP = ROOT / "examples" / "sweep"


@pytest.fixture
def example(here: Here):
    """Runs a command of an example's README in an empty folder, on a copy of the example."""

    def run(name: str, *arguments: str) -> str:
        folder = here.folder / "examples" / name
        shutil.copytree(ROOT / "examples" / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        command = next(re.finditer(r"^python (\S+)", (folder / "README.md").read_text(), re.MULTILINE))[1]
        done = subprocess.run(
            [sys.executable, command, *arguments],
            cwd=here.folder,
            env=here.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        until(lambda: not here.processes(), "the end of every process")
        return done.stdout

    return run


def test_batch_inference_labels_pictures_with_a_model_that_each_process_loads_once(example):
    said = example("batch_inference")
    assert re.findall(r"^(\w+) +8$", said, re.MULTILINE) == ["circle", "cross", "square"]
    ((least, loaded),) = re.findall(r"certain: (\S+)\nmodels loaded: (\d+)", said)
    assert float(least) > 0.5
    assert int(loaded) <= (os.cpu_count() or 1)


def test_the_model_of_batch_inference_is_what_its_training_script_writes(tmp_path):
    folder = tmp_path / "batch_inference"
    shutil.copytree(ROOT / "examples" / "batch_inference", folder)
    subprocess.run([sys.executable, "train.py"], cwd=folder, timeout=SECONDS, check=True, stdin=subprocess.DEVNULL)
    kept, written = (
        json.loads((place / "model.json").read_text()) for place in (ROOT / "examples" / "batch_inference", folder)
    )
    # The last digit may depend on the processor's way to add.
    assert numpy.allclose(kept.pop("weights"), written.pop("weights"), atol=0.01)
    assert kept == written


def test_preprocessing_makes_arrays_and_the_figures_of_the_whole_data_set(example, here):
    source = numpy.random.default_rng(3)
    (here.folder / "photographs").mkdir()
    for number in range(6):
        pixels = source.integers(0, 256, (80, 100 + number, 3), dtype="uint8")
        Image.fromarray(pixels).save(here.folder / "photographs" / f"{number}.png")
    (here.folder / "photographs" / "broken.png").write_bytes(b"no picture")
    assert example("preprocess", "photographs").startswith("6 arrays, 1 photographs that cannot be read")
    found = json.loads((here.folder / "statistics.json").read_text())
    assert [Path(name).name for name in found["unreadable"]] == ["broken.png"]
    arrays = [numpy.load(io.BytesIO(Path(uri.removeprefix("file://")).read_bytes())) for uri in found["arrays"]]
    assert {array.shape for array in arrays} == {(64, 64, 3)}
    assert numpy.allclose(found["mean"], numpy.mean(arrays, axis=(0, 1, 2)), atol=1e-4)
    assert numpy.allclose(found["deviation"], numpy.std(arrays, axis=(0, 1, 2)), atol=1e-4)


def test_rendering_makes_a_picture_for_each_view(example):
    lines = example("render", "--size", "24").splitlines()
    assert len(lines) == 2 * 3 * 2
    assert lines[0].startswith("molecule from 0 at noon: file://")
    pictures = [numpy.asarray(Image.open(line.partition(": file://")[2])) for line in lines]
    assert {picture.shape for picture in pictures} == {(24, 24)}
    # Each light differs, and a model that is turned about its own axis of symmetry does not.
    assert not numpy.array_equal(pictures[0], pictures[1])
    assert not numpy.array_equal(pictures[0], pictures[2])
    assert numpy.array_equal(pictures[6], pictures[8])


def test_a_chain_preprocesses_trains_and_evaluates(here):
    example = here.folder / "examples" / "chain"
    shutil.copytree(ROOT / "examples" / "chain", example, ignore=shutil.ignore_patterns("__pycache__"))
    (example / "measurements" / "broken.csv").write_text("no measurements\nat all")
    typed = next(re.finditer(r"^sh (.+)", (example / "README.md").read_text(), re.MULTILINE))[1]
    path = f"{Path(sys.executable).parent}:{here.environment.get('PATH', os.defpath)}"
    done = subprocess.run(
        ["sh", *typed.split()],
        cwd=here.folder,
        env={**here.environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3 * SECONDS,
        check=False,
    )
    found = [json.loads(each.read_text()) for each in here.folder.glob(".tidemill/out/accuracy-*/*/*/accuracy.json")]
    assert [each["rows"] for each in found] == [40] * 3, done.stderr
    assert min(each["accuracy"] for each in found) > 0.8
    assert done.returncode == 1
    until(lambda: not here.processes(), "the end of every process")


def typed_for_the_sweep():
    """The commands of the README, in the order in which people type them."""
    text = (SWEEP / "README.md").read_text()
    (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line)[1:] for line in block.replace("\\\n", "").splitlines()]


def test_the_sweep_runs_as_its_readme_says_and_resumes(here: Here):
    shutil.copytree(SWEEP, here.folder / "examples" / "sweep", ignore=shutil.ignore_patterns("__pycache__"))
    small = {"epochs=100": "epochs=12", "4s": "3s"}
    train, metrics, fetch = ([small.get(word, word) for word in words] for words in typed_for_the_sweep())
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
    subprocess.run([sys.executable, str(SWEEP / "train.py"), *words, *where], timeout=SECONDS, check=True)
    alone = (found / "model.json").read_text()
    assert any(model.read_text() == alone for model in models)
