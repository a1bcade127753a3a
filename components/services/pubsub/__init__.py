"""Queues on Pub/Sub: instance groups of machines that a reconciler keeps."""
