"""`pulumi-resource-gcp` in Python: `localcloud.provider` on Google's REST APIs and their discovery documents.

A row of `types/*.yaml` needs little more than a resource's place (`at`), the methods' collection and the body:
`kind.py` derives the operations. `calls.py` makes the calls, and the operations that no single method offers: IAM
members, parts of another resource, uploads.
"""
