"""Files of safetensors: the same tensors as the format's own library, from files and stores."""

import json
import threading

import pytest

import foreread
from conftest import pattern

numpy = pytest.importorskip("numpy")

from foreread.safetensors import SafetensorsError, SafetensorsFile, load  # noqa: E402


def tensors():
    rng = numpy.random.default_rng(5)
    return {
        "weight": rng.standard_normal((300, 700)).astype("f4"),
        "half": rng.standard_normal((7, 3, 2)).astype("f2"),
        "scalar": numpy.array(3.25),
        "empty": numpy.zeros((0, 5), "i2"),
        "flags": rng.integers(0, 2, 1000).astype("?"),
        "numbers": rng.integers(-(2**62), 2**62, (40, 9)),
        "complex": (rng.standard_normal(10) + 1j).astype("c8"),
        "bytes": rng.integers(0, 255, 100_001).astype("u1"),
    }


def encoded(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return len(text).to_bytes(8, "little") + text + data


@pytest.fixture
def saved(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "model.safetensors"
    library.save_file(tensors(), path, metadata={"format": "pt", "made by": "a test"})
    return path


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_tensors_are_those_of_the_library(saved):
    library = pytest.importorskip("safetensors.numpy")
    ours, theirs = load(saved), library.load_file(saved)
    assert set(ours) == set(theirs)
    assert all(same(ours[name], theirs[name]) for name in theirs)
    assert all(array.flags.writeable and array.base is None for array in ours.values())


def test_the_header_alone_tells_what_there_is(saved):
    engine = foreread.Engine("8MiB")
    with SafetensorsFile(saved, engine=engine) as file:
        assert file.metadata == {"format": "pt", "made by": "a test"}
        assert set(file.names()) == set(tensors()) and len(file) == 8
        info = file.info("weight")
        assert (info.dtype, info.shape, info.nbytes) == ("F32", (300, 700), 840_000)
        starts = [file.info(name).start for name in file.names()]
        assert starts == sorted(starts)
    assert engine.counters()["device_pages"] * 4096 < 840_000
    assert file.file.closed


def test_a_tensor_of_a_store_is_read_by_its_range(engine, store, saved):
    url = store.put("model.safetensors", saved.read_bytes())
    only = load(url, ["half", "scalar"], engine=engine, storage_options=store.options)
    assert set(only) == {"half", "scalar"}
    assert same(only["half"], tensors()["half"])
    everything = load(url, engine=engine, storage_options=store.options)
    assert all(same(everything[name], array) for name, array in tensors().items())


def test_rows_and_buffers_of_the_caller(engine, saved):
    file = SafetensorsFile(engine.open(saved))
    expected = tensors()["weight"]
    rows = numpy.empty((3, 700), "f4")
    file.read_rows_into("weight", 100, 103, rows)
    assert same(rows, expected[100:103])
    whole = bytearray(expected.nbytes)
    file.read_into("weight", whole)
    assert whole == expected.tobytes()
    file.read_rows_into("empty", 0, 0, bytearray())
    with pytest.raises(ValueError, match="a buffer of 3 bytes for 840000"):
        file.read_into("weight", bytearray(3))
    with pytest.raises(IndexError, match="rows 299 to 301 of 300"):
        file.row_range("weight", 299, 301)
    with pytest.raises(KeyError, match="no tensor 'wait'"):
        file.info("wait")
    file.will_need(["weight", "empty"])


def test_threads_read_tensors_of_one_file(engine, saved):
    file, expected = SafetensorsFile(engine.open(saved)), tensors()
    wrong = []

    def read():
        wrong.extend(name for name in expected if not same(file.numpy(name), expected[name]))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_numpy_has_no_dtype_for_is_said(engine, tmp_path):
    path = tmp_path / "b"
    path.write_bytes(encoded({"x": entry("BF16", [2], 0, 4)}, b"abcd"))
    file = SafetensorsFile(engine.open(path))
    with pytest.raises(TypeError, match="x: NumPy has no BF16"):
        file.numpy("x")
    buffer = bytearray(4)
    file.read_into("x", buffer)
    assert buffer == b"abcd"


def entry(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (b"", "it has 0 bytes"),
        (b"1234567", "it has 7 bytes"),
        ((1 << 40).to_bytes(8, "little") + b"{}", "its header would have"),
        ((3).to_bytes(8, "little") + b"{}", "its header would have 3 bytes"),
        (encoded(b"{", b""), "no JSON"),
        (encoded(b"\xff\xfe", b""), "no JSON"),
        (encoded([], b""), "not a JSON object"),
        (encoded({"__metadata__": 3}, b""), "metadata"),
        (encoded({"x": 3}, b""), "x: "),
        (encoded({"x": {"dtype": "F32"}}, b""), "x: 'shape'"),
        (encoded({"x": entry("F33", [1], 0, 4)}, b"abcd"), "not a known dtype"),
        (encoded({"x": entry("F32", [2], 0, 4)}, b"abcd"), r"4 bytes for \[2\] of F32"),
        (encoded({"x": entry("F32", [-1], 0, -4)}, b"abcd"), "not a number from 0"),
        (encoded({"x": entry("F32", [1], 4, 8)}, bytes(8)), "x: its bytes begin at"),
        (
            encoded({"x": entry("U8", [4], 0, 4), "y": entry("U8", [4], 2, 6)}, bytes(6)),
            "y: its bytes begin at",
        ),
        (encoded({"x": entry("U8", [4], 0, 4)}, b"abcdef"), "its tensors end at"),
        (encoded({"x": entry("U8", [8], 0, 8)}, b"abcd"), "its tensors end at"),
    ],
)
def test_a_file_that_is_none_is_said_to_be_none(engine, tmp_path, contents, why):
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(contents)
    with pytest.raises(SafetensorsError, match=why) as raised:
        load(path, engine=engine)
    assert str(path) in str(raised.value)


def test_a_large_tensor_is_read_with_little_memory_of_the_engine(tmp_path):
    data = pattern(20 << 20)
    path = tmp_path / "large"
    path.write_bytes(encoded({"x": entry("U8", [20 << 20], 0, 20 << 20)}, data))
    assert load(path, engine=foreread.Engine("2MiB"))["x"].tobytes() == data
