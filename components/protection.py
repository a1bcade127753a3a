"""The resource that a plain `pulumi destroy` reaches first."""

from dataclasses import dataclass

import pulumi

from .base import as_args, token


@dataclass
class ProtectionArgs:
    """Arguments of `Protection`."""

    purge: bool = False
    """True if everything may be destroyed."""
    key: str = "tidemill:allow: [purge]"
    """What sets `purge`, as people write it. The resource's name contains it, so that it never changes."""


class Protection(pulumi.ComponentResource):
    """Stops a plain `pulumi destroy` before it deletes anything, and names the key that allows it.

    Destroy runs no program and first deletes resources that nothing depends on. Without this, it would delete the
    unprotected half of a stack before it reached the first bucket. Make it depend on everything: then it comes first,
    its protection stops the destroy, and the engine's message shows its name.

    Makes: nothing.

    Costs while idle: nothing.

    Example:
        ```python
        store = AwsStore("vision-dev-store", AwsStoreArgs())
        Protection("vision-dev", ProtectionArgs(purge=False), pulumi.ResourceOptions(depends_on=[store]))
        pulumi.export("store", store.uri)
        ```
    """

    def __init__(self, name: str, args: ProtectionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(ProtectionArgs, args)
        protect = pulumi.ResourceOptions(protect=not args.purge)
        super().__init__(
            token(Protection), f"{name} ({args.key} lifts this)", None, pulumi.ResourceOptions.merge(opts, protect)
        )
        self.register_outputs({})
