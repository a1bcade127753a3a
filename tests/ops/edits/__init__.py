"""Edits of stacks and of what guards them, each with what the review has to say of it."""
