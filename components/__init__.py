"""The platform team's half: Pulumi components that provision one team's pipeline."""
