"""AWS: one component per module, each usable alone."""
