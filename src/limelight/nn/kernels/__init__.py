"""Fast implementations for CPUs; each is tested against the readable module that it replaces."""
