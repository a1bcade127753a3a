"""Mutant: machines do not take themselves out of placement when the notice comes."""

from components.services.batch import user_data


def apply() -> None:
    del user_data.AGENT_SETTINGS["ECS_ENABLE_SPOT_INSTANCE_DRAINING"]
