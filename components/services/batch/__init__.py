"""Queues on AWS Batch."""
