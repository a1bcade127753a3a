"""Builds the worker as a tree of its own, and the OCI image that carries it. It needs no Docker.

The tree depends on the kernel alone: this machine's CPython, the locked wheels, every shared library that they load and
the dynamic loader. It runs in images that have another C library, or none.
"""
