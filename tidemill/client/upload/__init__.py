"""Local data on its way into the job store: looked at, hashed, sent once, and named by its content."""
