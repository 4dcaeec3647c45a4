"""How learning proceeds; knows no concrete model or data."""
