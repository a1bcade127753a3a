"""Google's default service accounts, which are editors in many projects."""

import re
from typing import Any

_DEFAULT = re.compile(r"(\d+-compute@developer|.*@appspot)\.gserviceaccount\.com|default")


def is_default(address: Any) -> bool:
    """True if an address belongs to a default service account; an unset address means one.

    Source: https://cloud.google.com/iam/docs/service-account-types#default
    """
    return not address or bool(_DEFAULT.fullmatch(str(address).rpartition("/")[2]))
