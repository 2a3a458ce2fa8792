"""Search in conversations. Tokeniser, query and ranking are the same for every store."""
