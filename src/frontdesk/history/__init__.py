"""Reads a session through the store: its tree, the model's view, windows of the view, and the transcript."""
