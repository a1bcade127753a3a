"""The components as a Pulumi package: the engine starts this folder and asks it for its schema and its components."""

import sys
from pathlib import Path

# The folder is a part of the repository, which the engine fetches whole; its components are beside it.
sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from plugin.provider import serve  # noqa: E402

if __name__ == "__main__":
    serve(sys.argv[1:])
