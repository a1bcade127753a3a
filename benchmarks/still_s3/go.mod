module tidemill.dev/benchmarks/still_s3

go 1.25
