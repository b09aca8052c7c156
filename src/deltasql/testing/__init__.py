"""What users' own tests may build on: stores that fail on a script, and more."""
