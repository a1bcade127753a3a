"""What the Pulumi providers of both clouds share: one interpreter over a table of resource types.

A cloud brings its types (`types/*.yaml`), what their operations take (`table.Kind`) and how they are called
(`resources.CloudClient`). `table.py` reads the table, `convert.py` turns values into the cloud's shapes and back,
`resources.py` runs the operations, `server.py` speaks the engine's protocol.
"""
