"""The parts of Compute Engine that a fleet needs: a group, its autoscaler, and VMs as real processes.

``group``, ``autoscaler`` and ``capacity`` are state machines on whatever clock calls ``tick``: a simulation on virtual
time runs the same code as the emulated cloud.
"""
