"""python evaluate.py FEATURES MODEL OUTPUT: the share of a file's rows that the model labels correctly."""

import json
import sys
from pathlib import Path

features, model, output = map(Path, sys.argv[1:])
bias, of_height, of_weight = json.loads((model / "model.json").read_text())
rows = json.loads((features / "features.json").read_text())
right = sum((bias + of_height * height + of_weight * weight > 0) == label for height, weight, label in rows)
(output / "accuracy.json").write_text(json.dumps({"rows": len(rows), "accuracy": right / len(rows)}))
