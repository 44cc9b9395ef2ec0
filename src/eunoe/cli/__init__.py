"""The command `eunoe`: one file per command, each with a function that typer turns into a subcommand.

This is the only package that prints. Modules import the library inside functions, so that --help is fast.
`app` collects the commands and reports errors; `tables` prints tables.
"""
