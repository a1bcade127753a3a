"""Shelves in a stack."""
