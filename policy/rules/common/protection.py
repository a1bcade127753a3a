"""Protection from an unread preview that deletes or replaces."""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs


def unprotected(args: ResourceValidationArgs, loses: str, allowed_by: str) -> Iterator[str]:
    """Yield that a resource is not protected, with the fix; nothing if it is.

    Args:
        loses: what is lost with it.
        allowed_by: values of `tidemill:allow` that lift its protection.
    """
    if not args.opts.protect:
        yield (
            f"protect is off: deleting or replacing it loses {loses}. Set protect=True (in a Tidemill stack: remove "
            f"{allowed_by} from tidemill:allow), or waive this rule until the resource is gone."
        )
