"""Many runs: sweeps, tuning, cures."""
