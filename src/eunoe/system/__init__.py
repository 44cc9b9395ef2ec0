"""The operating system: atomic files, memory, signals, log output, the machine's hardware.

Run folders are in eunoe.store. Readers of files raise `Damaged` or `RunFailed` of eunoe.errors.
"""
