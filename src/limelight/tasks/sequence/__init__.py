"""Tasks on sequences: one answer per item, or one per sequence."""
