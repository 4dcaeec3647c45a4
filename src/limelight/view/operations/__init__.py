"""Follows the operations that torch executes inside a model, and finds attention among them."""
