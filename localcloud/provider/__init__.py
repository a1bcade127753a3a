"""What the Pulumi providers of both clouds share: one interpreter over a table of resource types.

A cloud contributes its types (`types/*.yaml`), the inputs of their operations (`table.Kind`) and the way to call them
(`resources.CloudClient`). `table.py` reads the table, `convert.py` turns values into the cloud's shapes and back,
`plan.py` checks and compares inputs, `resources.py` runs the operations, `server.py` speaks the engine's protocol.
"""
