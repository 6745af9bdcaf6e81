"""`foreread::s3://`: the engine makes the requests itself where it can, and s3fs elsewhere."""

import pickle

import pytest

import foreread

fsspec = pytest.importorskip("fsspec")
s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: ./dev test python-all")

from conftest import in_child  # noqa: E402
from foreread._native import open_native  # noqa: E402
from foreread.fsspec import ForereadCache, ForereadFileSystem  # noqa: E402


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    s3fs.S3FileSystem.clear_instance_cache()


def requests_of(act):
    """Returns a result, and how many requests the engine made itself for it."""
    before = foreread.default_engine().counters()["store_requests"]
    result = act()
    return result, foreread.default_engine().counters()["store_requests"] - before


def test_a_file_whose_options_say_all_is_read_natively(store, data):
    store.put("folder/a b+c?", data)
    fs = ForereadFileSystem(target_protocol="s3", target_options=store.options)
    with fs.open("s3://bucket/folder/a b+c?") as file:
        part, requests = requests_of(lambda: file.read(100_000))
    assert part == data[:100_000] and requests > 1
    with fs.open("bucket/folder/a b+c?") as file:
        file.seek(-10, 2)
        assert file.read() == data[-10:]
        again, requests = requests_of(lambda: (file.seek(0), file.read(100_000))[1])
    assert again == data[:100_000] and requests == 0
    assert fs.cat_ranges(["bucket/folder/a b+c?"] * 2, [0, -5], [5, None]) == [data[:5], data[-5:]]
    copy = pickle.loads(pickle.dumps(fs))
    assert copy.cat_file("bucket/folder/a b+c?", start=7, end=9) == data[7:9]


def test_a_url_of_fsspec_is_read_natively(store, data):
    url = store.put("data", data)
    with fsspec.open(f"foreread::{url}", s3=store.options) as file:
        part, requests = requests_of(lambda: file.read(5000))
    assert part == data[:5000] and requests > 1


def test_a_file_that_is_replaced_is_read_anew(store, data):
    store.put("data", data)
    fs = ForereadFileSystem(target_protocol="s3", target_options=store.options)
    assert fs.cat_file("bucket/data", start=0, end=10) == data[:10]
    store.put("data", data[::-1])
    fs.invalidate_cache()
    part, requests = requests_of(lambda: fs.cat_file("bucket/data", start=0, end=10))
    assert part == data[::-1][:10] and requests > 1


def test_a_missing_file_and_a_directory_are_those_errors(store, data):
    store.put("folder/data", data)
    fs = ForereadFileSystem(target_protocol="s3", target_options=store.options)
    with pytest.raises(FileNotFoundError):
        fs.open("bucket/missing")
    with pytest.raises(IsADirectoryError):
        fs.open("bucket/folder")


def test_what_the_native_client_does_not_know_is_left_to_s3fs(store, data, monkeypatch):
    store.put("data", data)
    store.key = "lab"
    for options in [
        {**store.options, "s3_additional_kwargs": {"RequestPayer": "requester"}},
        {"client_kwargs": store.options["client_kwargs"], "key": "lab"},
    ]:
        fs = s3fs.S3FileSystem(**options, skip_instance_cache=True)
        with pytest.raises(ValueError, match="native: the engine cannot read it itself"):
            ForereadFileSystem(fs=fs, native=True)
        assert ForereadFileSystem(fs=fs).native_options is None
    fs = s3fs.S3FileSystem(**store.options)
    around = ForereadFileSystem(fs=fs, native=False)
    part, requests = requests_of(lambda: around.cat_file("bucket/data", start=3, end=8))
    assert part == data[3:8] and requests == 0
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "lab")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    fs = s3fs.S3FileSystem(client_kwargs=store.options["client_kwargs"])
    around = ForereadFileSystem(fs=fs, native=True)
    assert around.cat_file("bucket/data", start=30, end=80) == data[30:80]


def test_an_object_that_differs_from_what_s3fs_states_is_left_to_s3fs(store, data, monkeypatch):
    """As if the two clients spoke with different stores."""
    store.put("data", data)

    def with_another_tag(engine, path, info, options):
        return open_native(engine, path, {**info, "ETag": '"another"'}, options)

    monkeypatch.setattr("foreread.fsspec.open_native", with_another_tag)
    for native in (None, True):
        fs = s3fs.S3FileSystem(**store.options, skip_instance_cache=True)
        around = ForereadFileSystem(fs=fs, native=native)
        with around.open("bucket/data") as file:
            if native:
                with pytest.raises(OSError, match="states the ETag"):
                    file.read(10)
            else:
                assert file.read(10) == data[:10]


def test_a_forked_child_reads_with_a_client_of_its_own(store, data):
    store.put("data", data)
    fs = ForereadFileSystem(target_protocol="s3", target_options=store.options)
    file = fs.open("bucket/data")
    assert file.read(10) == data[:10]
    assert in_child(lambda: file.read(10) == data[10:20])


def test_the_cache_type_reads_urls_of_s3fs(store, data):
    """The requests are those of s3fs; the pages are the engine's, and stay."""
    url = store.put("data", data)
    options = {**store.options, "default_cache_type": "foreread"}

    def read():
        with fsspec.open(url, **options) as file:
            assert type(file.cache) is ForereadCache
            start = file.read(100_000)
            file.seek(-7, 2)
            assert file.read() == data[-7:]
            file.seek(100_000)
            return start + file.read()

    whole, requests = requests_of(read)
    assert whole == data and requests == 0
    gets = store.gets()
    assert read() == data and store.gets() == gets
    fs = s3fs.S3FileSystem(**options)
    with fs.open(url, cache_type="foreread") as file:
        assert file.read() == data and store.gets() == gets
        store.put("data", data[::-1])
        fs.invalidate_cache()
        assert fs.cat_file(url, start=0, end=9) == data[::-1][:9]
        # The file that is open is the version of then.
        file.seek(0)
        assert file.read() == data


def test_the_cache_type_mixes_no_versions(store, data):
    """s3fs asks for the version of the open, and the store has another one now."""
    store.put("data", data)
    fs = s3fs.S3FileSystem(**store.options)
    with fs.open("bucket/data", cache_type="foreread") as file:
        assert file.read(10) == data[:10]
        store.put("data", data[::-1])
        file.seek(2 << 20)
        with pytest.raises(OSError) as caught:
            file.read(4096)
    assert caught.value.__cause__ is not None and caught.value.filename == "s3://bucket/data"
