"""From a log to the catalog."""
