"""Bills of the clouds by team and month beside the estimates, and commitments that are paid in any case."""
