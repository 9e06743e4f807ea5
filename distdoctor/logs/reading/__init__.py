"""Files of any format and compression, read as lines within a budget."""
