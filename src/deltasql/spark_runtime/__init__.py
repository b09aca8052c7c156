"""Our own work that runs on Spark: the tasks of an import, and the session for them."""
