"""An AWS or a GCP on one machine, for the demo, tests and benchmarks. It never proves what a real cloud would do."""
