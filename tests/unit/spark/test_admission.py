"""How many files a batch takes."""

from deltasql.spark.streaming.batches import BatchLimit


def test_no_limit_takes_all():
    room = BatchLimit()
    assert room.take([1, 2, 3]) == 3
    assert not room.is_full


def test_files_are_counted():
    room = BatchLimit(files=2)
    assert room.take([1, 1, 1]) == 2
    assert room.is_full
    assert room.take([1]) == 0


def test_the_last_file_may_go_over_the_bytes():
    room = BatchLimit(bytes=10)
    assert room.take([9, 9, 1]) == 2
    assert room.is_full


def test_files_that_belong_together_are_taken_if_all_fit():
    room = BatchLimit(files=4, bytes=100)
    assert room.take([1]) == 1
    assert room.take_all([5, 5])
    assert not room.take_all([5, 5])
    assert not BatchLimit(bytes=9, is_begun=True).take_all([5, 5])


def test_the_first_of_a_batch_are_taken_in_any_case():
    room = BatchLimit(files=1, bytes=1)
    assert room.take_all([5, 5, 5])
    assert room.is_full
    assert not room.take_all([5])
