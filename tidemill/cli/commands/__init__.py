"""The commands, a module each, imported when it is typed."""
