"""Where clients train and models are evaluated."""
