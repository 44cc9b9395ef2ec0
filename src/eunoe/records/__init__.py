"""What a run left behind, read and put into tables."""
