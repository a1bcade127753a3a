"""Protection from being deleted or replaced by a preview that nobody read."""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs


def unprotected(args: ResourceValidationArgs, loses: str, allowed_by: str) -> Iterator[str]:
    """Yield that a resource is not protected, with the fix; nothing where it is.

    Args:
        args: the resource.
        loses: what is lost with it.
        allowed_by: values of `tidemill:allow` that lift its protection.
    """
    if not args.opts.protect:
        yield (
            f"protect is off: deleting or replacing it loses {loses}. Set protect=True (in a Tidemill stack: take "
            f"{allowed_by} out of tidemill:allow), or waive this rule until the day by which it is gone."
        )
