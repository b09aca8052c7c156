"""Spark sessions: started, addressed, their types and errors as ours.

The other folders of `deltasql.spark` use it. Start with `spark_session`.
"""
