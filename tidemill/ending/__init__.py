"""The end of a job. The process that ends the job tells of it, or else the next client that looks at the job."""
