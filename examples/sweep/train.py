"""Fits a classifier of points in the plane by gradient descent, in plain Python.

It writes a checkpoint every two seconds and when it is told to end (SIGTERM), and it begins with the checkpoint if
there is one. The order of the points follows from seed and epoch, so an interrupted training ends with the same weights
as one that was not.
"""

import argparse
import json
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

POINTS = 3000
CHECKPOINT_SECONDS = 2.0


def points():
    """Points with a label: whether they are inside an ellipse, as far as the noise lets one see it."""
    found, source = [], random.Random(7)
    for _ in range(POINTS):
        x, y = source.uniform(-1, 1), source.uniform(-1, 1)
        inside = x * x + 2 * y * y + source.gauss(0, 0.1) < 0.6
        found.append(((1.0, x, y, x * x, x * y, y * y), inside))
    return found


def probability(weights, features):
    return 1 / (1 + math.exp(-sum(w * f for w, f in zip(weights, features, strict=True))))


def loss(weights, data):
    each = (probability(weights, features) if label else 1 - probability(weights, features) for features, label in data)
    return -sum(math.log(max(p, 1e-12)) for p in each) / len(data)


def save(path, state):
    """Write a file whole or not at all."""
    path.with_suffix(".new").write_text(json.dumps(state))
    os.replace(path.with_suffix(".new"), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    options = parser.parse_args()
    checkpoint, data = options.checkpoints / "last.json", points()
    epoch, weights = 0, [0.0] * 6
    if checkpoint.exists():
        epoch, weights = json.loads(checkpoint.read_text())
        print(f"resuming after epoch {epoch}", flush=True)
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    saved = time.monotonic()
    while epoch < options.epochs:
        order = random.Random(f"{options.seed} {epoch}").sample(data, len(data))
        for features, label in order:
            error = probability(weights, features) - label
            weights = [w - options.lr * error * f for w, f in zip(weights, features, strict=True)]
        epoch += 1
        print(f"epoch {epoch} loss {loss(weights, data):.5f}", flush=True)
        if told or time.monotonic() > saved + CHECKPOINT_SECONDS:
            save(checkpoint, [epoch, weights])
            saved = time.monotonic()
        if told:
            sys.exit(f"told to end after epoch {epoch}")
    save(options.model, weights)


if __name__ == "__main__":
    main()
