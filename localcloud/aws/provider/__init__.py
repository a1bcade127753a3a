"""`pulumi-resource-aws` in Python: `localcloud.provider` on boto3.

`types/*.yaml` says what each type is, `table.py` reads it, `convert.py` turns values into botocore's shapes and back,
`resources.py` runs the operations, `server.py` speaks the engine's protocol.
"""
