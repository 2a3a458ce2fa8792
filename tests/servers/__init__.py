"""Real servers for tests and benchmarks: each starts on a free port and leaves nothing behind."""
