"""What an import reads: the listing of the log, its gaps, and the tasks.

The other folders of `imports` use it. Start with `import_plan`.
"""
