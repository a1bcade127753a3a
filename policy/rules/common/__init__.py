"""The building blocks of rules."""
