"""Tables as DataFrames: what Spark users call. It loads pyspark, which nothing below does."""
