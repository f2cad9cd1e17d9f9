"""The command line: options, and one function for each command."""

from boundcheck.cli.app import main

__all__ = ["main"]
