"""How machines reach what is outside their network, as plain data: a proxy, and whose certificates they trust."""

import datetime
import re
import ssl
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from .errors import HIDDEN
from .model import Model
from .types import matching, unique

_HOST = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?){0,10}"
_URL = re.compile(rf"http://{_HOST}:[1-9]\d{{0,4}}")
_DIRECT = re.compile(rf"\.?{_HOST}|(\d{{1,3}}\.){{3}}\d{{1,3}}/\d{{1,2}}")
_PEM = re.compile(r"(\s*-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----)+\s*")


def _without_password(url: str) -> str:
    if "@" in url:
        raise PydanticCustomError(HIDDEN, "http://host:port, without a user or password")
    return url


def _without_key(text: str) -> str:
    if "PRIVATE KEY" in text:
        raise PydanticCustomError(HIDDEN, "certificates alone, without a private key; replace that key, others read it")
    return text


def _vouching(text: str) -> str:
    """Certificates of authorities that have not expired, a line each, with this system's line ends."""
    text = "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        trusted.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        raise ValueError(f"certificates that OpenSSL can read; it says {error.reason}") from None
    authorities = trusted.get_ca_certs()
    if len(authorities) < text.count("-BEGIN "):
        raise ValueError("certificates of authorities (CA:TRUE), each once; a server's own vouches for nobody")
    now = datetime.datetime.now(datetime.UTC).timestamp()
    for each in authorities:
        if ssl.cert_time_to_seconds(str(each["notAfter"])) < now:
            raise ValueError(f"certificates that have not expired; one did on {each['notAfter']}")
    return text


Certificates = Annotated[
    str,
    AfterValidator(_without_key),
    matching(_PEM, "certificates as PEM, `-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`, alone", 20_000),
    AfterValidator(_vouching),
]


class Proxy(Model):
    """A forward proxy, through which machines and jobs reach what is not in their network."""

    url: Annotated[
        str, AfterValidator(_without_password), matching(_URL, "http://host:port, without a user or password", 300)
    ] = Field(
        description="The proxy's address, such as http://proxy.example.com:3128. TLS goes through it end to end "
        "(CONNECT). It holds no password: machines' settings and the stack's state would hold it as well; let the "
        "proxy admit the machines' addresses.",
    )
    no_proxy: (
        Annotated[
            list[
                Annotated[
                    str, matching(_DIRECT, "a host, a domain, or an IPv4 range such as 10.0.0.0/8; no wildcard", 255)
                ]
            ],
            unique,
        ]
        | None
    ) = Field(
        default=None,
        max_length=50,
        description="What is reached without the proxy: hosts, domains with all below them, IPv4 ranges. The machine "
        "itself, its metadata, the endpoints of a network that Tidemill makes, and on GCP Google's APIs are always "
        "reached so. On AWS with an existing network name the domains that its endpoints serve, such as "
        "us-west-2.amazonaws.com, or [] if it has none.",
    )
