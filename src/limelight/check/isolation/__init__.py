"""User code runs in a process of its own."""
