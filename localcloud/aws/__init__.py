"""The AWS half: moto behind a gateway that checks signatures and IAM, and a Batch that runs."""
