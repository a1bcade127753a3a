"""Builds the worker as a self-contained tree and the OCI image that carries it, without Docker.

The tree depends only on the kernel: it holds this machine's CPython, or Debian's for another architecture, the locked
wheels, every shared library that they load, and the dynamic loader. It runs in images with another C library or none.
"""
