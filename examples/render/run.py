"""python run.py [--size PIXELS] [--pipeline URI] [--queue NAME]: render views, here or on a pipeline's machines."""

import argparse
from itertools import product

import render

import tidemill

ANGLES = (0, 60, 120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=128, help="pixels of a picture's side (128)")
    parser.add_argument("--pipeline", help="URI of pipeline.json; without it, this machine")
    parser.add_argument("--queue")
    options = parser.parse_args()
    views = [
        tidemill.Item(index, f"{model} from {angle} at {light}", {"model": model, "angle": angle, "light": light})
        for index, (model, angle, light) in enumerate(product(render.MODELS, ANGLES, render.LIGHTS))
    ]
    pipeline = tidemill.Pipeline.load(options.pipeline) if options.pipeline else tidemill.Pipeline.local()
    pictures = pipeline.map(
        render.render, views, queue=options.queue, name="views", env={"SIZE": str(options.size)}, return_exceptions=True
    )
    for view, picture in zip(views, pictures, strict=True):
        print(f"{view.uri}: {picture}")


if __name__ == "__main__":
    main()
