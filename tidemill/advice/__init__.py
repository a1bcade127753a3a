"""Advice: where to run, on which machine, at what risk and what price."""
