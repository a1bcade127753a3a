"""The checks: of jobs, of machines and of the platform, each in order of risk. ``python -m ops.first_account.page``
writes docs/first-account.md from them.
"""

from ops.first_account.check import Check
from ops.first_account.jobs import JOBS
from ops.first_account.machines import MACHINES
from ops.first_account.platform import PLATFORM

CHECKS: tuple[Check, ...] = (*JOBS, *MACHINES, *PLATFORM)
