"""Cloud Functions whose source runs as a process, and the scheduler that calls them."""
