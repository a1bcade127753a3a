"""`python3 -m tidemill.sender`: the program of what a cloud starts to send jobs. The environment says which cloud's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial

from tidemill.sender import handle

PIPELINE = "TIDEMILL_PIPELINE"


def main(env: Mapping[str, str] = os.environ) -> int:
    """Serve the cloud's calls until it ends this process; 2 where the environment is not that of a sender."""
    if not (uri := env.get(PIPELINE)):
        print(f"error: {PIPELINE} is not set. Set it to the URI of a pipeline.json.", file=sys.stderr)
        return 2
    answer = partial(handle, uri)
    if address := env.get("AWS_LAMBDA_RUNTIME_API"):
        from tidemill.sender.lambda_runtime import serve

        serve(address, answer)
    if (port := env.get("PORT", "")).isdecimal():
        from tidemill.sender.cloud_run import server

        server(int(port), answer).serve_forever()
    print("error: neither AWS_LAMBDA_RUNTIME_API nor PORT is set: only a cloud starts the sender.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
