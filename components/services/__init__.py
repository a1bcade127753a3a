"""The platform half of services: a folder is a service, and has all that a stack needs for its queues."""
