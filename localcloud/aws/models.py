"""botocore's service models, read once per process.

Each session of botocore has its own loader, which lists all services and reads each model again: EC2's takes 60 ms.
Importing this module lets all sessions share one loader. moto makes sessions while it is imported, so this comes first.
"""

from __future__ import annotations

import functools
from typing import Any

import botocore.session
from botocore.loaders import create_loader
from botocore.model import ServiceModel

_loader = functools.cache(create_loader)
botocore.session.create_loader = _loader  # type: ignore[attr-defined]


@functools.cache
def service_model(name: str) -> Any:
    """Return a service's model. It is untyped because the properties of botocore's models are.

    Raises:
        DataNotFoundError or UnknownServiceError: There is no such service.
    """
    return ServiceModel(_loader(None).load_service_model(name, "service-2"), name)
