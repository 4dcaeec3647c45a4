"""Bytes -> batches; knows no model."""
