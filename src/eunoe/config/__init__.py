"""The configuration of a run.

`schema.Config` is the validated content of a config file and the type to know. Its sections are in `options`.
`settings` reads TOML and applies --set before validation. `registry` finds components by name, and `builtin`
lists them. `messages` turns validation errors into one line. Which options go together is not checked here
but in simulation/compatibility.py.
"""
