"""Cloud KMS keys: an existing one, or a component's own."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_gcp as gcp

from .member import Member, grant
from .project import Project

CREATE = "create"
_ROTATION = f"{90 * 24 * 3600}s"


def key_name(
    component: pulumi.Resource,
    wanted: pulumi.Input[str] | None,
    project: Project,
    agent: Member,
    labels: Mapping[str, pulumi.Input[str]] | None,
    *,
    purge: bool,
    what: str | None = None,
) -> pulumi.Output[str] | None:
    """The full name of the key to encrypt with, or None for Google's own encryption.

    Args:
        wanted: None, ``create``, or the name of a key whose policy already admits the service agent.
        agent: the service agent that encrypts and decrypts; a new key admits it.
        purge: lift the protection of a new key; data encrypted with it is unreadable once its versions are destroyed.
        what: what it is for, if the component has several keys.
    """
    if wanted != CREATE:
        return None if wanted is None else pulumi.Output.from_input(wanted)
    name = "-".join(filter(None, [component.pulumi_resource_name, what]))
    # A key ring can never be deleted, so a new one gets a new name.
    ring = gcp.kms.KeyRing(f"{name}-keys", location=project.region, opts=pulumi.ResourceOptions(parent=component))
    key = gcp.kms.CryptoKey(
        f"{name}-key",
        key_ring=ring.id,
        purpose="ENCRYPT_DECRYPT",
        rotation_period=_ROTATION,
        labels=labels,
        opts=pulumi.ResourceOptions(parent=component, protect=not purge),
    )
    role = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
    admitted = grant(
        component, gcp.kms.CryptoKeyIAMMember, f"{what}-key" if what else "key", agent, role, crypto_key_id=key.id
    )
    # Resources that encrypt with the key must wait for the permission.
    return pulumi.Output.all(key.id, admitted.id).apply(lambda both: both[0])
