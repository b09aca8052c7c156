"""`python -m deltasql` is the `deltasql` program."""

from deltasql.cli.main import main

main()
