"""The command line: parse, call the API, print; no logic of its own.

Nothing imports it. Start with `main`, which names the module of each command.
"""
