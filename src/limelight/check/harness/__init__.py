"""How an unknown object is constructed and called."""
