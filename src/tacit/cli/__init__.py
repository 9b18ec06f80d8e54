"""The commands: `tacit --help`. One module a command; `app` puts them together."""

from tacit.cli.app import main

__all__ = ["main"]
