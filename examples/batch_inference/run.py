"""python run.py [PICTURES] [--pipeline URI] [--queue NAME]: label every picture, here or on a pipeline's machines."""

import argparse
from collections import Counter
from pathlib import Path

import classify
import shapes

import tidemill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", nargs="?", help="a folder, a list, a prefix or a pattern")
    parser.add_argument("--pipeline", help="URI of pipeline.json; without it, this machine")
    parser.add_argument("--queue")
    options = parser.parse_args()
    if options.pictures is None:
        options.pictures = "shapes"
        shapes.write(Path(options.pictures), 24)
    pipeline = tidemill.Pipeline.load(options.pipeline) if options.pipeline else tidemill.Pipeline.local()
    # The folder travels with the module, because the model is a file in it.
    here = Path(__file__).parent
    found = list(pipeline.map(classify.classify, options.pictures, queue=options.queue, name="labels", code=here))
    for label, count in Counter(value["label"] for value in found).most_common():
        print(f"{label:8} {count}")
    print(f"the least certain: {min(value['score'] for value in found):.2f}")
    print(f"models loaded: {len({value['process'] for value in found})}")


if __name__ == "__main__":
    main()
