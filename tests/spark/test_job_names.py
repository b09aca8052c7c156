"""Spark's page says what our jobs are for."""

import deltasql.spark
from deltasql.spark.session.spark_session import named_jobs


def test_the_jobs_of_a_write_are_named(session, catalog_uri, tmp_path):
    tracker = session.sparkContext._jsc.sc().statusStore()
    frame = session.range(10_000)

    deltasql.spark.write(frame, catalog_uri, "t", location=str(tmp_path / "t"))

    jobs = tracker.jobsList(None)
    names = {jobs.apply(at).description() for at in range(jobs.length())}
    assert "deltasql: write to t" in {one.get() for one in names if one.isDefined()}


def test_a_name_of_the_users_own_stays(session):
    context = session.sparkContext
    context.setJobDescription("nightly load")
    try:
        with named_jobs(session, "ours"):
            assert context.getLocalProperty("spark.job.description") == "nightly load"
        assert context.getLocalProperty("spark.job.description") == "nightly load"
    finally:
        context.setLocalProperty("spark.job.description", None)


def test_the_name_ends_with_the_block(session):
    with named_jobs(session, "ours"):
        assert session.sparkContext.getLocalProperty("spark.job.description") == "ours"
    assert session.sparkContext.getLocalProperty("spark.job.description") is None
