"""Monitoring on AWS: metrics, alarms, dashboard and saved queries."""
