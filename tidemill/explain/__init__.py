"""Why a job does not progress: facts in, causes out.

`facts.py` is what was seen, without a judgement. `causes.py` lists every cause with its class. The rules in `job.py`,
`aws.py` and `gcp.py` say which causes hold, and `judge.py` puts them into order. Nothing here reads anything: backends
and the client state the facts, so every rule can be tested with a record.
"""

from tidemill.explain.facts import Facts, JobFacts
from tidemill.explain.judge import Explanation, Looks, explain

__all__ = ["Explanation", "Facts", "JobFacts", "Looks", "explain"]
