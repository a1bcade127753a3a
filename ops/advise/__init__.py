"""Which families, zones and rungs a queue of a stack file should have."""
