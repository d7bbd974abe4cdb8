"""The version of the distribution, for everyone who must say it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
