"""A user's program: digest.py FILE FOLDER SECONDS writes the file's SHA-256 and takes that long."""

import hashlib
import sys
import time
from pathlib import Path

source, folder, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
time.sleep(seconds)
(folder / "sha256.txt").write_text(hashlib.sha256(source.read_bytes()).hexdigest())
