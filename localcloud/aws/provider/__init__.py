"""`pulumi-resource-aws` in Python: `localcloud.provider` on boto3.

`types/*.yaml` describes each type, `table.py` reads it, `convert.py` converts values to botocore's shapes and back,
`clients.py` makes the calls, `server.py` speaks the engine's protocol.
"""
