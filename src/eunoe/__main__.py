"""`python -m eunoe` is the eunoe command."""

from eunoe.cli.app import main

main()
