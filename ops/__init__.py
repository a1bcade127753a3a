"""The platform team's commands: `python -m ops`."""
