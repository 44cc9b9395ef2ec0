"""The commands of `eunoe`, one file each."""
