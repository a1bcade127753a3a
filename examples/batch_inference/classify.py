"""Classifies a picture. The model is loaded when this module is imported: once per worker process."""

import json
import os
from pathlib import Path

import numpy
from PIL import Image

MODEL = json.loads(Path(__file__).with_name("model.json").read_text())
WEIGHTS = numpy.array(MODEL["weights"])


def classify(input: str) -> dict:  # noqa: A002 - the name asks for a local copy of the item
    """The label of a picture and its probability, and the process that holds the model."""
    grey = Image.open(input).convert("L").resize((MODEL["side"], MODEL["side"]))
    scores = numpy.exp(numpy.append(numpy.asarray(grey).ravel() / 255, 1) @ WEIGHTS)
    best = int(scores.argmax())
    return {"label": MODEL["labels"][best], "score": float(scores[best] / scores.sum()), "process": os.getpid()}
