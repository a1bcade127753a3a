"""Emulated machines of every cloud: namespaces, what runs in them, and the images that containers are made of."""
