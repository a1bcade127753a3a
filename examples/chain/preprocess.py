"""python preprocess.py MEASUREMENTS OUTPUT: rows of `height,weight,label` become scaled features, as JSON."""

import csv
import json
import sys
from pathlib import Path

source, output = sys.argv[1:]
with open(source, newline="") as file:
    rows = [(float(row["height"]) / 100, float(row["weight"]) / 100, int(row["label"])) for row in csv.DictReader(file)]
Path(output, "features.json").write_text(json.dumps(rows))
