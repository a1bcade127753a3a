"""A user's program: digest.py FILE FOLDER writes the file's SHA-256."""

import hashlib
import sys
from pathlib import Path

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
(folder / "sha256.txt").write_text(hashlib.sha256(source.read_bytes()).hexdigest())
