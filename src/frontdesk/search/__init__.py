"""Finding what was said before: the tokeniser, the query and the ranking are pure, and the same for every store."""
