"""Loading into SQL what an import has read.

`imports.job` and maintenance use it. Start with `loader`, then `tables` for its transactions.
"""
