"""How a manager is set up: the builder, the settings that it fills in, and the runtime."""
