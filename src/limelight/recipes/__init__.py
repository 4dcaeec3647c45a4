"""One TOML a recipe."""
