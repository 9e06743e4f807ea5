"""Renderers: one module per output format, each a function from a report to text."""
