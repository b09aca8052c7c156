"""The Parquet files of a table, in one process: Arrow batches to files, files to Arrow batches."""
