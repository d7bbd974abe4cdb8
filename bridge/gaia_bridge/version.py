"""The version of the distribution, for everyone who must say it."""

__version__ = "0.1.0"
