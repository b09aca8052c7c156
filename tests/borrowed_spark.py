"""The Spark of another process: a driver that borrows it can be killed without killing its JVM."""

from typing import Any

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def lent(spark: Any) -> dict[str, str]:
    """Return the environment in which a driver borrows this session's JVM."""
    parameters = spark.sparkContext._gateway.java_parameters
    return {_PORT: str(parameters.port), _SECRET: parameters.auth_token}


def borrowed_session() -> Any:
    """Return a new session in the JVM of the process that lends it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    jvm = gateway.jvm
    context = jvm.org.apache.spark.SparkContext.getOrCreate()
    java = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    conf = SparkConf(_jvm=jvm, _jconf=java.getConf())
    first = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    return SparkSession(SparkContext(gateway=gateway, jsc=java, conf=conf), first.newSession())
