"""How a manager is set up: the builder, the settings it fills in, and what runs in the background."""
