"""A SQL server or file: transactions, named queries, pools and errors of each dialect.

It knows no table of ours; the metastore and all above may import it. Start with `port`.
"""
