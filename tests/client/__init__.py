"""Tests of the client that the suite over the public API does not have: lost answers, keys, and its own surface."""
