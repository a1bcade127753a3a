"""Emulated machines of both clouds: namespaces, the programs in them, and the images of containers."""
