"""The JSON Schema of `ops review --json`: `python -m ops.review.schema` writes docs/review.schema.json."""

import json

from pydantic import TypeAdapter

from ops.project import ROOT
from ops.review.models import Review

PATH = ROOT / "docs" / "review.schema.json"


def schema() -> str:
    """The schema as text; every key is required."""
    document = TypeAdapter(Review).json_schema(mode="serialization")
    for part in (document, *document["$defs"].values()):
        if "properties" in part:
            part["required"] = list(part["properties"])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "python -m ops review --json"}
    return json.dumps(head | {key: value for key, value in document.items() if key != "title"}, indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema(), encoding="utf-8")
