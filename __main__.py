"""The Pulumi program: reads the stack's config, builds the team's pipeline and exports what others need."""

import gc

from components.program import run

# A cloud's SDK is 300,000 objects that stay. Python's default threshold adds a third to the time of their import.
gc.set_threshold(50_000)
run()
