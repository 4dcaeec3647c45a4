"""Data sets that are generated: no file and no download."""
