"""Registries as plain data: a stack's own, mirrors of others, and the references of images in them."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from .later import RegistryKey
from .model import Model
from .types import Name, StackName, matching, unique

_HOST = r"(?=[^/]*[.:])[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?"
_PART = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
ECR = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?(?![^/])")
"""The host of a private registry of ECR."""
_HUB = "docker.io"
_HUBS = (_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_HTTPS = re.compile(r"\.?(:0*443)?$")
"""What a registry's host may end with and stay the same: the dot of a full domain name, and the port of HTTPS."""
_PINNED = re.compile(r"(?!\w+://)(?P<name>[^@]+)@sha256:[0-9a-f]{64}")


Mirrors = dict[
    Annotated[
        str,
        matching(
            re.compile(_HOST), "a registry's host in lower case without https:// and path, such as docker.io", 260
        ),
    ],
    Annotated[
        str,
        matching(
            re.compile(rf"{_HOST}(/{_PART})*"),
            "host/path in lower case without https://, tag, digest or a slash at its end, such as "
            "registry.example.com/docker-hub",
            300,
        ),
    ],
]


def one_name(host: str) -> str:
    """The one name of a registry that has several: Docker Hub's, and the host without the port of HTTPS."""
    plain = _HTTPS.sub("", host)
    return _HUB if plain in _HUBS else plain


def in_mirror(mirrors: Mapping[str, str], image: str) -> bool:
    """Tell if an image lies in one of the mirrors."""
    return image.startswith(tuple(f"{mirror}/" for mirror in mirrors.values()))


def mirrored(mirrors: Mapping[str, str], image: str) -> str:
    """The same image in its registry's mirror, by the same digest; itself if there is none, or no digest.

    Docker Hub's images have short names, of which mirrors know only the long ones: ``user/name``, ``docker.io/python``.
    Source: https://github.com/distribution/reference/blob/main/normalize.go
    """
    if not _PINNED.fullmatch(image):
        return image
    host, _, path = image.partition("/")
    if not path or not ("." in host or ":" in host or host == "localhost") or "@" in host:
        host, path = _HUB, image
    host = one_name(host)
    if host == _HUB and "/" not in path:
        path = f"library/{path}"
    return f"{mirrors[host]}/{path}" if host in mirrors else image


class Images(Model):
    """Image repositories of a stack."""

    repositories: Annotated[list[Name], unique] = Field(
        default=[],
        description="AWS: repositories to make in addition to those of the queues' `registry://` images. On GCP one "
        "repository holds images of every name.",
    )
    keep_images: int = Field(
        default=100, ge=1, le=10_000, description="Images kept in each repository; older ones expire."
    )
    expire_untagged_after_days: int = Field(
        default=14, ge=1, le=3650, description="Days after which untagged images expire."
    )
    kms_key: RegistryKey | None = Field(
        default=None,
        description="Encrypt images with a KMS key instead of the cloud's own. `create` makes one, about $1 per month "
        "idle (GCP: about $0.06 per version). Only new repositories take a key: with another one they would be "
        "replaced, which their protection stops.",
    )


class Registry(Images):
    """The team's image repositories."""

    shared: StackName | None = Field(
        default=None,
        description="A shared stack (folder shared/), such as organization/tidemill-shared/prod, whose registry images "
        "may also come from, as shared://name:tag or by digest.",
    )
