"""Translation: from one sequence to another."""
