"""Items: their inputs, code, state and outputs around one run of a program or function."""
