"""GCP: one component per module, each usable alone."""
