"""AWS: Batch, CloudWatch Logs and what `tidemill doctor` asks."""
