"""HTTPS to public addresses only, for machines of people: an address that is read from a job store may be anyone's.

A name is looked up once, and what was looked at is connected to, so that a second answer of its server changes nothing.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import urllib.request
from contextlib import suppress
from typing import Any

_EMBEDS = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses that end with one of IPv4. Source: https://www.rfc-editor.org/rfc/rfc6052"""
_UNICAST = ipaddress.ip_network("2000::/3")
"""All other IPv6 addresses of the internet. Outside lie older forms of IPv4 addresses, and networks' own translators.
Source: https://www.iana.org/assignments/ipv6-address-space/ipv6-address-space.xhtml"""


class NotPublicError(OSError):
    """A host has an address of a private network, or of this machine."""


def is_public(address: str) -> bool:
    """True if an IP address is public and of a single host."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _EMBEDS:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is None and ip not in _UNICAST:
            return False
        ip = inner or ip
    return ip.is_global and not ip.is_multicast


def look_up(host: str, port: int) -> list[str]:
    """The IP addresses of a host.

    Raises:
        NotPublicError: One of them is not public.
        OSError: It has none.
    """
    addresses = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not all(map(is_public, addresses)):
        raise NotPublicError(f"{host} is not public")
    return addresses


class PublicHttps(urllib.request.HTTPSHandler):
    """Opens HTTPS addresses whose hosts are public."""

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _Connection(http.client.HTTPSConnection):
    _tunnel_host: str | None

    def __init__(self, host: str, **more: Any) -> None:
        super().__init__(host, **more)
        # The socket that `connect` makes, before it speaks TLS with the host by its name.
        self._create_connection = self._checked

    def _checked(self, address: tuple[str, int], *more: Any) -> socket.socket:
        if self._tunnel_host is not None:
            with suppress(socket.gaierror):  # Behind a proxy names may be the proxy's alone to look up.
                look_up(self._tunnel_host, 443)
            return socket.create_connection(address, *more)
        failure = OSError("no address")
        for each in look_up(*address):
            try:
                return socket.create_connection((each, address[1]), *more)
            except OSError as error:
                failure = error
        raise failure
