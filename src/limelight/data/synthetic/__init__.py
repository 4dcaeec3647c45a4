"""Generated data sets: no files and no downloads."""
