"""The rules, one per file: the file's name is the rule's."""

import pkgutil
from importlib import import_module

from .common import rule

_LAST = "any-tidemill-waiver-used"
"""The rule that needs the results of all others."""

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
POLICIES = sorted(rule.POLICIES.values(), key=lambda policy: (policy.name == _LAST, policy.name))
