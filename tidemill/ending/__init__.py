"""The end of a job, and who is told of it: by whoever ends the job, or else by the next client that looks at it."""
