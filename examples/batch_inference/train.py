"""Fits the model that `classify.py` loads: python train.py writes model.json."""

import json
from pathlib import Path

import numpy
from shapes import LABELS, SIDE, draw

PICTURES, STEPS, RATE = 600, 300, 0.5


def fit() -> numpy.ndarray:
    """Weights of a softmax regression: a row per pixel and one for the bias, a column per label."""
    random = numpy.random.default_rng(1)
    wanted = numpy.arange(PICTURES) % len(LABELS)
    pixels = numpy.array([draw(LABELS[label], random).ravel() / 255 for label in wanted])
    inputs = numpy.hstack([pixels, numpy.ones((PICTURES, 1))])
    weights = numpy.zeros((SIDE * SIDE + 1, len(LABELS)))
    for _ in range(STEPS):
        scores = numpy.exp(inputs @ weights)
        error = scores / scores.sum(axis=1, keepdims=True) - numpy.eye(len(LABELS))[wanted]
        weights -= RATE * inputs.T @ error / PICTURES
    return weights


if __name__ == "__main__":
    model = {"labels": LABELS, "side": SIDE, "weights": numpy.round(fit(), 3).tolist()}
    Path(__file__).with_name("model.json").write_text(json.dumps(model))
