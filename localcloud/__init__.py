"""An AWS on one machine for the demo, the tests and the benchmarks; never a proof of what AWS itself would do."""
