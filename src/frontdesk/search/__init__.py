"""Finding what was said before."""
