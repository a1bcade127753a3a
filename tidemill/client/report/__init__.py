"""The report of a job: what `tidemill report` reads, reckons and draws."""
