"""The components as a Pulumi package: the engine runs this folder and asks it for its schema and components."""

import sys
from pathlib import Path

# The engine fetches the whole repository; the components are next to this folder.
sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from plugin.provider import serve  # noqa: E402

if __name__ == "__main__":
    serve(sys.argv[1:])
