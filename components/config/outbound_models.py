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
# Digits and spaces of ASCII alone: user data holds no others.
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
# A machine's own addresses are nobody else's proxy.
_URL = re.compile(rf"http://(?!localhost:|127\.|169\.254\.){_HOST}:({_PORT})")
_ALLOWED_URL = "http://host:port, without a user or password; not of the machine itself, no port beyond 65535"
_BYTE = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# Clients skip a range that is none, without a word.
_DIRECT = re.compile(rf"\.?{_HOST}|({_BYTE}\.){{3}}{_BYTE}/([12]?[0-9]|3[0-2])")
_SPACE = r"[ \t\r\n]"
_PEM = re.compile(
    rf"({_SPACE}*-----BEGIN CERTIFICATE-----{_SPACE}*\n[A-Za-z0-9+/= \t\r\n]+\n-----END CERTIFICATE-----)+{_SPACE}*"
)
_MOST_PEM = 20_000


def _without_password(url: str) -> str:
    if "@" in url:
        raise PydanticCustomError(HIDDEN, _ALLOWED_URL)
    return url


def _without_key(text: str) -> str:
    if "PRIVATE KEY" in text:
        raise PydanticCustomError(HIDDEN, "certificates alone, without a private key; replace that key, others read it")
    if len(text) > _MOST_PEM:
        raise ValueError(f"at most {_MOST_PEM:,} characters; your own authorities alone, not a whole bundle")
    return text


def _vouching(text: str) -> str:
    """Certificates of authorities that have not expired, with this system's line ends."""
    text = "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        trusted.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        raise ValueError(f"certificates that OpenSSL can read; it says {error.reason or error.args[0]}") from None
    certificates = text.split("-----BEGIN ")[1:]
    if len(set(certificates)) < len(certificates):
        raise ValueError("each certificate once")
    authorities = trusted.get_ca_certs()
    if len(authorities) < len(certificates):
        raise ValueError("certificates of authorities (CA:TRUE); a server's own vouches for nobody")
    now = datetime.datetime.now(datetime.UTC).timestamp()
    for each in authorities:
        name = ", ".join(value for part in each["subject"] for _, value in part)
        if ssl.cert_time_to_seconds(str(each["notAfter"])) < now:
            raise ValueError(f"certificates that have not expired; that of {name} did on {each['notAfter']}")
    return text


Certificates = Annotated[
    str,
    AfterValidator(_without_key),
    matching(
        _PEM,
        "certificates as PEM, from the line `-----BEGIN CERTIFICATE-----` to the line `-----END CERTIFICATE-----`, "
        "without other text; `openssl x509 -in FILE` prints one so",
        _MOST_PEM,
    ),
    AfterValidator(_vouching),
]


class Proxy(Model):
    """A forward proxy, through which machines and jobs reach what is not in their network."""

    url: Annotated[
        str,
        AfterValidator(_without_password),
        matching(_URL, _ALLOWED_URL, 300),
    ] = Field(
        description="The proxy's address, such as http://proxy.example.com:3128. TLS goes through it end to end "
        "(CONNECT). It holds no password: machines' settings and the stack's state would hold it as well; let the "
        "proxy admit the machines' addresses.",
    )
    no_proxy: (
        Annotated[
            list[
                Annotated[
                    str,
                    matching(_DIRECT, "a host, a domain, or an IPv4 range such as 10.0.0.0/8; no wildcard", 255),
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
