"""The rules, one per file: the file's name is the rule's."""

import pkgutil
from importlib import import_module

from pulumi_policy import Policy

_LAST = "any_tidemill_waiver_used"
"""The rule that needs the results of all others."""

NAMES = [module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg]
POLICIES: list[Policy] = [
    import_module(f".{name}", __name__).POLICY for name in sorted(NAMES, key=lambda name: (name == _LAST, name))
]
