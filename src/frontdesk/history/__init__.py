"""Reading a session through the store: its tree, the model's view, windows that fit, and the transcript as a stream."""
