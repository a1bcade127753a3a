"""Address ranges of networks that no key gives."""

import hashlib
import ipaddress
import re

POOL = ipaddress.IPv4Network("10.0.0.0/8")
LENGTH = 18
"""Prefix length of a derived range: on AWS a sixteenth of it, a zone's subnet, has addresses for 1019 machines."""

RANGE = re.compile(r"\d+\.\d+\.\d+\.\d+/(1[6-9]|20)")
"""A VPC's range: sixteen subnets of a /20 have 251 addresses each, and AWS takes none larger than /16.
Source: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html"""

_FIRST = 2 ** (LENGTH - 16)
"""The first /16 stays free: it is the range of every network that version 0.1 made."""


def derived(network: str, region: str) -> str:
    """The range of a network by its name, `vision-dev-network`, and region: always the same one, rarely another's.

    Of twelve networks two share a range with a probability of 6 %: `ops check` then names both.
    """
    count = 2 ** (LENGTH - POOL.prefixlen) - _FIRST
    number = int.from_bytes(hashlib.sha256(f"{region}/{network}".encode()).digest()[:8]) % count + _FIRST
    size = 2 ** (32 - LENGTH)
    return f"{POOL.network_address + number * size}/{LENGTH}"
