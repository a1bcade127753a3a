"""The policy pack: one rule per file in ``rules/``.

Run it with ``pulumi preview --policy-pack policy --policy-pack-config policy/environments/prod.json``. A violation of
a mandatory rule makes the preview fail before anything is created. docs/policies.md lists the rules.
"""

from pulumi_policy import EnforcementLevel, PolicyPack
from rules import POLICIES
from rules.common import front

front.install(POLICIES)
PolicyPack(name="tidemill", enforcement_level=EnforcementLevel.MANDATORY, policies=POLICIES)
