"""The SDK: a pipeline, its jobs, and what became of them."""

from tidemill.client.job import Job
from tidemill.client.pipeline import Pipeline, QueueInfo
from tidemill.client.rounds.rounds import RoundResult
from tidemill.client.watch.job_rows import JobRow
from tidemill.client.watch.status import Chunks, Status, Summary

__all__ = ["Chunks", "Job", "JobRow", "Pipeline", "QueueInfo", "RoundResult", "Status", "Summary"]
