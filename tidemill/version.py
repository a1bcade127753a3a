"""The version of this package, a leaf that every module may import."""

__version__ = "0.1.0"
