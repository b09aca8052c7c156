"""An open catalog, below everything that features and users do with it.

`connection` holds what all of them share: the metastore in SQL, the stores of the tables, settings,
clock and events; `ownership` says whether a log is this catalog's. Features, the API and above may
import from here; nothing here knows of imports, the mirror's queue or vacuum. Start with
`connection.Connection`.
"""
