"""The sender of a pipeline on AWS, its schedules, and the events of files that arrive."""
