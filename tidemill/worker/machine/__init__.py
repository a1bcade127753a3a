"""The machine of a worker: processors, memory, scratch, and notices that it will go."""
