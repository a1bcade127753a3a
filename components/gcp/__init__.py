"""GCP: each module holds one component, usable alone."""
