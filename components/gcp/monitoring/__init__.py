"""Monitoring on GCP: metrics, alerts and dashboard."""
