"""Many writers at once, and writers that are killed."""
