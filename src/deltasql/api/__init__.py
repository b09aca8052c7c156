"""What users hold in their hands: connect, Catalog, Table, Transaction, Scan."""
