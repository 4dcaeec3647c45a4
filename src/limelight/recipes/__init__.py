"""One TOML file per recipe."""
