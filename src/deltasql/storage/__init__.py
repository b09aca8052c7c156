"""Object stores behind one port; this package knows nothing of Delta."""
