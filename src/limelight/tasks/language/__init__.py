"""Language models: the next token of running text."""
