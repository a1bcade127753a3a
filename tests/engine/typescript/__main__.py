"""Builds the generator of SDKs and installs the locked packages, once per version, into the user's cache."""

from tests.engine import typescript

if __name__ == "__main__":
    typescript.generator()
    typescript.modules()
