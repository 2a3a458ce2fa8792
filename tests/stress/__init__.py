"""Many concurrent writers, and writers that are killed."""
