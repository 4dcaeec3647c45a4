"""The local server of the live page."""
