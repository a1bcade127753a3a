"""The AWS half: moto behind a gateway that checks signatures and IAM, and an AWS Batch that runs jobs."""
