"""python train.py FEATURES OUTPUT: fits a perceptron to the features of every file below a folder."""

import json
import sys
from pathlib import Path

features, output = sys.argv[1:]
rows = [row for path in sorted(Path(features).glob("**/features.json")) for row in json.loads(path.read_text())]
weights = [0.0, 0.0, 0.0]
for _ in range(500):
    for height, weight, label in rows:
        inputs = (1.0, height, weight)
        error = label - (sum(w * x for w, x in zip(weights, inputs, strict=True)) > 0)
        weights = [w + 0.1 * error * x for w, x in zip(weights, inputs, strict=True)]
Path(output, "model.json").write_text(json.dumps(weights))
print(f"{len(rows)} rows")
