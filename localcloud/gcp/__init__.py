"""GCP emulated on one machine."""
