"""Queries of the workers' lines that CloudWatch's console offers by name."""

QUERIES = {
    "failed items": 'fields @timestamp, queue, job, item, reason, error | filter event = "item" and status = "failed" '
    "| sort @timestamp desc | limit 1000",
    "workers in trouble": "fields @timestamp, queue, job, level, code, message | "
    'filter level in ["warning", "error"] | sort @timestamp desc | limit 1000',
    "one job (put its id in)": 'fields @timestamp, item, attempt, stream, message | filter job = "NAME-1a2b3c4d" '
    "| sort @timestamp asc | limit 10000",
}
"""By the end of the query's name; a slash in it makes a folder.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_Insights-Saving-Queries.html"""
