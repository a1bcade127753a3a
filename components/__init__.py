"""The platform team's half: Pulumi components that provision a team's pipeline."""
