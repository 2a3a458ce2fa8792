"""Drop-in session stores for agent frameworks, one module for each. Every module needs the extra of its name."""
