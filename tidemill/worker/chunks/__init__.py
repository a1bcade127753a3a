"""Chunks that a worker holds: leased, run, recorded, and the end of their jobs told."""
