"""The sender of a pipeline on GCP, and the files that it looks for."""
