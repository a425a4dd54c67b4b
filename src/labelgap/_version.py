"""The version, for what is below the package's own names."""

__version__ = "0.1.0"
