"""How machines and containers reach what is outside their network: a proxy, what goes past it, and whom they trust."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pulumi

from .config import part
from .config.later import plain
from .config.model import Model
from .config.outbound_models import Certificates, Proxy

NEVER_PROXIED = ("localhost", "127.0.0.1", "169.254.169.254")
"""The machine itself, and its metadata."""

_TRUST = (
    "AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
)  # fmt: skip
"""Variables that name a file of certificates: for boto3, curl, git, gRPC, Node, requests (with it Google's libraries
and pip), and OpenSSL with everything that reads its variable, such as the worker."""


class _Keys(Model):
    proxy: Proxy | None = None
    certificates: Certificates | None = None


@dataclass
class Outbound:
    """A proxy and certificates, by the rules of a stack file."""

    proxy: str | None = None
    """URL of the proxy, `http://host:port`."""
    no_proxy: Sequence[pulumi.Input[str]] = ()
    """Hosts, domains and ranges that are reached without it, in addition to `NEVER_PROXIED`."""
    certificates: str | None = None
    """Certificates of authorities to trust in addition to the public ones, as PEM."""
    direct: Iterable[str] = field(default=NEVER_PROXIED)
    """Hosts that no client may ask through a proxy."""

    @classmethod
    def of(
        cls, proxy: str | None, no_proxy: Sequence[pulumi.Input[str]], certificates: str | None, *direct: str
    ) -> Outbound:
        """From the arguments of a component.

        Args:
            direct: what this service's machines and containers must reach without a proxy.

        Raises:
            ConfigError: the first thing that is wrong, as one line.
        """
        given = {"url": proxy, "no_proxy": plain(no_proxy)} if proxy is not None else None
        keys = part(_Keys, {"proxy": given, "certificates": certificates})
        return cls(proxy, no_proxy if proxy else (), keys.certificates, (*NEVER_PROXIED, *direct))

    @property
    def past(self) -> pulumi.Output[str]:
        """The value of `NO_PROXY`."""
        listed = pulumi.Output.all(*self.no_proxy)
        return listed.apply(lambda values: ",".join(dict.fromkeys([*self.direct, *values])))

    def variables(self, bundle: str) -> dict[str, pulumi.Input[str]]:
        """Variables of a container, for the worker and for programs.

        Args:
            bundle: the file with the public certificates and those of `certificates`, in the container.
        """
        trust = dict.fromkeys(_TRUST, bundle) if self.certificates else {}
        return {**(proxy_variables(self.proxy, self.past) if self.proxy else {}), **trust}


def proxy_variables(proxy: str, past: pulumi.Input[str]) -> dict[str, pulumi.Input[str]]:
    """Variables that clients read. Some read lower case alone: curl does for HTTP."""
    upper = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": past}
    return {**upper, **{key.lower(): value for key, value in upper.items()}}
