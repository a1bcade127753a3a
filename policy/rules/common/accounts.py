"""Google's default service accounts, which hold the role of an editor in many projects."""

import re
from typing import Any

_DEFAULT = re.compile(r"(\d+-compute@developer|.*@appspot)\.gserviceaccount\.com|default")


def is_default(address: Any) -> bool:
    """Whether an address is that of a default service account; nothing set means one.

    Source: https://cloud.google.com/iam/docs/service-account-types#default
    """
    return not address or bool(_DEFAULT.fullmatch(str(address).rpartition("/")[2]))
