"""Does SQL mean what the source log says? Compared version by version and file by file.

`imports.job` and the API use it. Start with `validator`.
"""
