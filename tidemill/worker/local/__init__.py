"""Local runs: workers as processes of one machine."""
