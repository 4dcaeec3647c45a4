"""Labels for tokens: parts of speech, names, and other spans."""
