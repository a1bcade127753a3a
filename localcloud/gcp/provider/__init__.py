"""`pulumi-resource-gcp` in Python: `localcloud.provider` on Google's REST APIs and their discovery documents.

A row of `types/*.yaml` needs little more than where a resource lies (`at`), the methods' collection and the body:
`kind.py` makes the operations of it. `calls.py` makes the calls, and what no single method does: IAM members, parts of
another resource, uploads.
"""
