"""Bytes on disk: what files take, with landmarks and the write-ahead log apart."""

from lmk_integrations.bench.disk import bytes_on_disk


def test_landmarks_and_the_log_are_apart(tmp_path):
    """By the folder's name, however deep; blocks are counted, so holes are not."""
    (tmp_path / "a" / "wal").mkdir(parents=True)
    (tmp_path / "a" / "vector_storage-landmarks").mkdir()
    (tmp_path / "a" / "vector_storage-landmarks" / "c").write_bytes(b"x" * 100_000)
    (tmp_path / "a" / "data").write_bytes(b"x" * 10_000)
    (tmp_path / "a" / "wal" / "1").write_bytes(b"x" * 50_000)
    with (tmp_path / "a" / "sparse").open("wb") as file:
        file.truncate(10_000_000)
    found = bytes_on_disk(tmp_path)
    assert 10_000 <= found.data < 50_000 <= found.log < 100_000 <= found.landmarks < 150_000
    assert list(found.to_dict()) == ["data", "landmarks", "log"]
