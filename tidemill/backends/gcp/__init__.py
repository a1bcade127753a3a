"""GCP: Pub/Sub, Cloud Logging and what `tidemill doctor` asks."""
