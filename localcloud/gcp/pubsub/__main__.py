"""python -m localcloud.gcp.pubsub: a Pub/Sub alone; prints {"rest": port, "grpc": port} and ends with its input."""

import os
import sys

from localcloud.gcp.pubsub import binary

if __name__ == "__main__":
    os.execv(binary(), ["pubsub", *sys.argv[1:]])
