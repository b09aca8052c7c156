"""PySpark: the engines for big tables. Nothing below imports it, and it loads only when asked."""
