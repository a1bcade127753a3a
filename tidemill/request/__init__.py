"""A request for a job, and what each of its options is on the command line.

All here is of the standard library alone, because `tidemill submit --help` reads it.
"""

from tidemill.request.job_request import OPTIONS, STATE, JobRequest, complete, with_flags
from tidemill.request.option import UNITS, Option

__all__ = ["OPTIONS", "STATE", "UNITS", "JobRequest", "Option", "complete", "with_flags"]
