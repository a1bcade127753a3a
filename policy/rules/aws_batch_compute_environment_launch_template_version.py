"""A compute environment names a concrete version of its launch template.

Batch reads `$Latest` once, when it creates the environment. It never applies a later version, and no diff shows that.
Source: https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html
"""

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule("Compute environments name a concrete version of their launch template.", MEDIUM, COMPUTE_ENVIRONMENT)
def violations(args: Resource) -> Violations:
    template = look(args.props, "computeResources", "launchTemplate")
    if template is None or template is UNKNOWN:
        return
    version = look(template, "version")
    if version is None or version in ("", "$Latest", "$Default"):
        yield (
            f"launchTemplate.version is {version or 'not set'}: the environment would not follow the template. "
            "Give the concrete version: launch_template.latest_version.apply(str)."
        )
