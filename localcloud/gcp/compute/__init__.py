"""Compute Engine as far as a fleet needs it: a group and its autoscaler by their facts, and VMs as real processes.

``group``, ``autoscaler`` and ``capacity`` are state machines on whatever clock calls ``tick``: a simulation on virtual
time runs the same code as the emulated cloud.
"""
