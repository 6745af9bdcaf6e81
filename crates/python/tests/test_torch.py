"""PyTorch: tensors, rows and shards, also in the workers of a loader.

Needs PyTorch, which no verb of ./dev installs: with what it needs on Linux it is 3 GB to load.
"""

import json
import subprocess
import sys

import pytest

import foreread
from conftest import pattern
from test_safetensors import encoded, entry
from test_shards import ALL, folder  # noqa: F401: a fixture


def test_without_torch_the_error_names_the_extra():
    code = """
import sys
sys.modules["torch"] = None
try:
    import foreread.torch
except ImportError as error:
    assert "pip install foreread[torch]" in str(error), error
else:
    raise SystemExit("no error")
import foreread.shards, foreread.safetensors
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def rows(tmp_path, torch):
    """Two files of 100 and 57 rows."""
    paths = []
    for number, count in enumerate([100, 57]):
        data, header, at = b"", {}, 0
        for name, dtype, width in [("x", "F32", 40), ("label", "I64", 8), ("b", "BF16", 2)]:
            part = pattern(count * width, seed=number)
            header[name] = entry(dtype, [count, *([10] if name == "x" else [])], at, at + len(part))
            data, at = data + part, at + len(part)
        paths.append(tmp_path / f"{number}.safetensors")
        paths[-1].write_bytes(encoded(header, data))
    return paths


def reference(torch, path):
    """The tensors of a file, by the bytes that its header names."""
    text = path.read_bytes()
    length = int.from_bytes(text[:8], "little")
    dtypes = {"F32": torch.float32, "I64": torch.int64, "BF16": torch.bfloat16}
    found = {}
    for name, stated in json.loads(text[8 : 8 + length]).items():
        start, end = (8 + length + at for at in stated["data_offsets"])
        flat = torch.frombuffer(bytearray(text[start:end]), dtype=dtypes[stated["dtype"]])
        found[name] = flat.reshape(stated["shape"])
    return found


def same(torch, a, b):
    flat = [each.contiguous().view(-1).view(torch.uint8) for each in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*flat)


def test_tensors_of_a_file_and_of_a_store(torch, rows, engine, store):
    from foreread.torch import load_safetensors

    expected = reference(torch, rows[0])
    url = store.put("model", rows[0].read_bytes())
    for loaded in [
        load_safetensors(rows[0], engine=engine),
        load_safetensors(url, engine=engine, storage_options=store.options),
        load_safetensors(engine.open(rows[0]), device="cpu"),
    ]:
        assert all(same(torch, loaded[name], expected[name]) for name in expected)
    assert list(load_safetensors(rows[0], ["b"])) == ["b"]
    loaded["x"].add_(1)


def test_the_library_of_the_format_loads_the_same(torch, tmp_path):
    library = pytest.importorskip("safetensors.torch")
    from foreread.torch import load_safetensors

    tensors = {
        f"{dtype}": torch.arange(24).reshape(2, 3, 4).to(dtype)
        for dtype in [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.int16]
    }
    tensors |= {"none": torch.empty(0, 4), "one": torch.tensor(2.5, dtype=torch.float64)}
    library.save_file(tensors, tmp_path / "t")
    loaded = load_safetensors(tmp_path / "t")
    assert all(same(torch, loaded[name], tensor) for name, tensor in tensors.items())


def test_rows_in_any_order(torch, rows):
    from foreread.torch import SafetensorsDataset

    engine = foreread.Engine("8MiB")
    data = SafetensorsDataset(rows, engine=engine)
    parts = [reference(torch, path) for path in rows]
    expected = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    assert len(data) == 157
    for row in [0, 99, 100, 156, -1, 42]:
        found = data[row]
        assert all(same(torch, found[name], expected[name][row]) for name in expected)
    batch = data.__getitems__([150, 3, 3, 99])
    assert [found["label"].item() for found in batch] == expected["label"][[150, 3, 3, 99]].tolist()
    for row in [157, -158]:
        with pytest.raises(IndexError):
            data[row]
    labels = SafetensorsDataset(rows[0], ["label"], transform=lambda row: row["label"].item())
    assert labels[5] == parts[0]["label"][5].item()


def test_columns_of_different_lengths_are_refused(torch, tmp_path):
    from foreread.torch import SafetensorsDataset

    path = tmp_path / "p"
    header = {"a": entry("U8", [4], 0, 4), "b": entry("U8", [2], 4, 6)}
    path.write_bytes(encoded(header, bytes(6)))
    with pytest.raises(ValueError, match="different numbers of rows"):
        SafetensorsDataset(path)
    assert len(SafetensorsDataset(path, ["b"])) == 2


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_loaders_read_rows_in_workers(torch, rows, store, context):
    from foreread.torch import SafetensorsDataset

    url = store.put("rows", rows[0].read_bytes())
    data = SafetensorsDataset([url], ["x", "label"], storage_options=store.options)
    expected = reference(torch, rows[0])
    loader = torch.utils.data.DataLoader(
        data, batch_size=32, num_workers=2, multiprocessing_context=context
    )
    batches = list(loader)
    assert same(torch, torch.cat([batch["x"] for batch in batches]), expected["x"])
    assert same(torch, torch.cat([batch["label"] for batch in batches]), expected["label"])


def key_of(sample):
    return sample["__key__"]


@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_loaders_read_each_sample_once(torch, folder, workers, context):  # noqa: F811
    from foreread.torch import ShardDataset

    data = ShardDataset(str(folder), shuffle=5, transform=key_of)
    settings = {"multiprocessing_context": context} if workers else {}
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, **settings)
    first = list(loader)
    data.set_epoch(1)
    second = list(loader)
    assert sorted(first) == sorted(second) == ALL and first != second


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on_where_it_was(torch, folder, workers):  # noqa: F811
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    from foreread.torch import ShardDataset

    def loader():
        data = ShardDataset(str(folder), shuffle=5, transform=key_of)
        return stateful.StatefulDataLoader(data, batch_size=None, num_workers=workers)

    expected = list(loader())
    running = loader()
    iterator = iter(running)
    first = [next(iterator) for _ in range(13)]
    state = running.state_dict()
    resumed = loader()
    resumed.load_state_dict(state)
    assert first + list(resumed) == expected
    assert sorted(expected) == ALL


def test_the_rank_is_that_of_the_process_group(torch, folder, tmp_path):  # noqa: F811
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    from foreread.torch import ShardDataset

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        assert sorted(map(key_of, ShardDataset(str(folder)))) == ALL
        assert ShardDataset(str(folder))._part() == (0, 1)
        assert ShardDataset(str(folder), rank=2, world=3)._part() == (2, 3)
    finally:
        torch.distributed.destroy_process_group()
