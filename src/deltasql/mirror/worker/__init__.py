"""The mirror worker: it follows SQL for all tables, within limits, and raises alerts.

The API starts it. Start with `reconciler`.
"""
