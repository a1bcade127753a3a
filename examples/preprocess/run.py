"""python run.py PHOTOGRAPHS [--pipeline URI] [--queue NAME]: prepare photographs, here or on a pipeline's machines."""

import argparse
import json
from pathlib import Path

import numpy
import prepare

import tidemill
from tidemill.errors import ItemFailedError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", help="a folder, a list, a prefix or a pattern")
    parser.add_argument("--pipeline", help="URI of pipeline.json; without it, this machine")
    parser.add_argument("--queue")
    options = parser.parse_args()
    pipeline = tidemill.Pipeline.load(options.pipeline) if options.pipeline else tidemill.Pipeline.local()
    arrays, unreadable, pixels, sums, squares = [], [], 0, numpy.zeros(3), numpy.zeros(3)
    values = pipeline.map(
        prepare.prepare,
        options.photographs,
        queue=options.queue,
        name="prepared",
        attempts=1,
        return_exceptions=True,
    )
    for value in values:
        if isinstance(value, ItemFailedError):
            unreadable.append(value.item)
            continue
        arrays.append(value["array"])
        pixels += value["pixels"]
        sums += value["sum"]
        squares += value["squares"]
    mean = sums / max(pixels, 1)
    deviation = numpy.sqrt(squares / max(pixels, 1) - mean**2)
    statistics = {"mean": mean.tolist(), "deviation": deviation.tolist(), "arrays": arrays, "unreadable": unreadable}
    Path("statistics.json").write_text(json.dumps(statistics, indent=2))
    print(f"{len(arrays)} arrays, {len(unreadable)} photographs that cannot be read; see statistics.json")


if __name__ == "__main__":
    main()
