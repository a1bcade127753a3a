"""A GCP on one machine."""
