"""Labels for two texts: entailment, paraphrase, similarity."""
