"""The policy pack: one rule a file in ``rules/``, every one of them mandatory.

Run it with ``pulumi preview --policy-pack policy``. A violation makes the preview fail before anything is created.
"""

from pulumi_policy import EnforcementLevel, PolicyPack
from rules import POLICIES

PolicyPack(name="tidemill", enforcement_level=EnforcementLevel.MANDATORY, policies=POLICIES)
