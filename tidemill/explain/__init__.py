"""Why a job does not progress: facts in, causes out.

`facts.py` is what was seen, without a judgement. `causes.py` lists every cause with its class. The rules in `job.py`,
`aws.py` and `gcp.py` say which causes hold, `judge.py` puts them into order, and `answer.py` is what users see. Nothing
here reads anything: backends and the client state the facts, so every rule can be tested with a record. Import the
rules only where something is explained: other commands start without them.
"""

from tidemill.explain.answer import Explanation, Reason

__all__ = ["Explanation", "Reason"]
