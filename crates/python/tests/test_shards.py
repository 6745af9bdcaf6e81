"""Tar shards: their members as tarfile reads them, and orders that are shuffled, split, resumed."""

import collections
import io
import json
import pickle
import random
import tarfile
import threading

import pytest

import foreread
from conftest import in_child, pattern
from foreread import _tar
from foreread.shards import ShardDataset, TarError, expand


def sample_bytes(name: str) -> bytes:
    rng = random.Random(name)
    return rng.randbytes(rng.choice([0, 5, 511, 512, 513, 3000, 20_000]))


def write_shard(path, names, suffixes=("jpg", "cls"), format=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=format) as tar:
        for name in names:
            for suffix in suffixes:
                info = tarfile.TarInfo(f"{name}.{suffix}")
                data = sample_bytes(info.name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


@pytest.fixture
def folder(tmp_path):
    """Six shards of 5 to 10 samples."""
    (tmp_path / "sub").mkdir()
    for shard in range(6):
        where = tmp_path / "sub" if shard == 3 else tmp_path
        names = [f"{shard}/{number:03d}" for number in range(5 + shard)]
        write_shard(where / f"train-{shard:03d}.tar", names)
    (tmp_path / "README").write_text("no shard")
    return tmp_path


ALL = [f"{shard}/{number:03d}" for shard in range(6) for number in range(5 + shard)]


def keys(samples):
    return [sample["__key__"] for sample in samples]


def dataset(folder, **settings):
    return ShardDataset(folder, engine=foreread.Engine("8MiB"), **settings)


def test_samples_are_the_members_of_the_shards(folder):
    found = list(dataset(folder))
    assert sorted(keys(found)) == ALL
    for sample in found:
        assert set(sample) == {"__key__", "__url__", "jpg", "cls"}
        assert sample["jpg"] == sample_bytes(f"{sample['__key__']}.jpg")
        assert sample["cls"] == sample_bytes(f"{sample['__key__']}.cls")
    in_order = [key for shard in (3, 0, 1, 2, 4, 5) for key in ALL if key[0] == str(shard)]
    assert keys(found) == in_order, "the names of shards are sorted: sub/.. before train-.."


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_those_of_tarfile(tmp_path, engine, format):
    path = tmp_path / "a.tar"
    names = ["a.txt", "d/b.x.y", "n" * 90 + ".bin"]
    if format != tarfile.USTAR_FORMAT:
        names += ["l" * 300 + ".bin", "d/" * 120 + "deep.bin", "\u00e4\u00f6.bin"]
    else:
        names += ["p" * 80 + "/" + "q" * 80 + ".bin"]
    with tarfile.open(path, "w", format=format) as tar:
        for number, name in enumerate(names):
            tar.addfile(_info(f"dir{number}", tarfile.DIRTYPE))
            tar.addfile(_info(name, size=number * 700), io.BytesIO(pattern(number * 700)))
            link = _info(f"link{number}", tarfile.SYMTYPE)
            link.linkname = "t" * (200 if format != tarfile.USTAR_FORMAT else 20)
            tar.addfile(link)
            hard = _info(f"hard{number}", tarfile.LNKTYPE)
            hard.linkname = "a.txt"
            tar.addfile(hard)
    ours = [(each.name, each.offset, each.size) for each in _tar.members(engine.open(path))]
    with tarfile.open(path) as tar:
        theirs = [(each.name, each.offset_data, each.size) for each in tar if each.isreg()]
    assert ours == theirs and len(ours) == len(names)


def _info(name, kind=tarfile.REGTYPE, size=0):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info


def test_sizes_in_binary_and_in_extended_headers():
    assert _tar.number(b"\x80" + bytes(3) + (9 << 33).to_bytes(8, "big")) == 9 << 33
    assert _tar.number(b"0000017\0") == 15 and _tar.number(b"   17 \0\0") == 15
    assert _tar.number(bytes(8)) == 0
    for wrong in [b"\xff" + bytes(11), b"\x80" + b"\xff" * 11, b"00000x7\0", b"8\0"]:
        with pytest.raises(ValueError):
            _tar.number(wrong)
    assert _tar.records(b"12 size=100\n11 path=a=\n") == {"size": "100", "path": "a="}
    cut = [b"5 a=b", b"99 a=b\n", b"x a=b\n", b"6 a=bc", b"0 a=b\n"]
    for wrong in [*cut, b"5 abc\n", b"8 size=x\n"]:
        with pytest.raises(ValueError):
            _tar.records(wrong)


def test_a_broken_archive_is_an_error_that_names_it(tmp_path, engine):
    path = tmp_path / "broken.tar"
    write_shard(path, ["a", "b"])
    good = path.read_bytes()
    first = tarfile.open(path).getmembers()[0]
    flipped = bytearray(good)
    flipped[3] ^= 1
    end = first.offset_data + first.size
    for contents, why in [
        (bytes(flipped), "header at 0: its checksum is wrong"),
        (good[: first.offset_data + max(first.size - 1, 0)], "the archive ends at|checksum"),
        (good[:100], "ends after 100 bytes"),
        (good[: end + -end % 512] + b"rubbish" * 100, "checksum|not an octal number"),
    ]:
        path.write_bytes(contents)
        with pytest.raises(TarError, match=why) as raised:
            list(_tar.members(engine.open(path)))
        assert str(path) in str(raised.value)
        engine = foreread.Engine("4MiB")
    path.write_bytes(b"")
    assert list(_tar.members(engine.open(path))) == []


def test_a_sample_with_two_members_of_one_name_is_an_error(tmp_path):
    write_shard(tmp_path / "a.tar", ["x", "x"], suffixes=["txt"])
    with pytest.raises(TarError, match="'txt' twice"):
        list(dataset(tmp_path))


def test_bytes_are_read_in_order_and_once(tmp_path):
    engine = foreread.Engine("8MiB")
    write_shard(tmp_path / "a.tar", [f"{number:05d}" for number in range(400)])
    size = (tmp_path / "a.tar").stat().st_size
    assert len(list(ShardDataset(tmp_path, engine=engine))) == 400
    counters = engine.counters()
    assert counters["device_pages"] * 4096 < size + (1 << 16)
    assert counters["device_reads"] < 60


def test_the_second_epoch_needs_no_headers_and_the_index_tells_them(folder):
    data = dataset(folder)
    first = list(data)
    shard = data._shard(1)
    assert [member.name for member in shard.index()] == [
        f"0/{number:03d}.{suffix}" for number in range(5) for suffix in ("jpg", "cls")
    ]
    read = collections.Counter()
    pread = foreread.File.pread

    def counting(self, size, offset):
        read[size] += 1
        return pread(self, size, offset)

    foreread.File.pread = counting
    try:
        assert keys(data) == keys(first)
    finally:
        foreread.File.pread = pread
    assert sum(read.values()) == 2 * len(ALL)


def test_an_order_follows_from_seed_and_epoch(folder):
    a, b = (dataset(folder, shuffle=8, seed=3) for _ in range(2))
    first, second = keys(a), keys(a)
    assert sorted(first) == sorted(second) == ALL and first != second
    assert [keys(b), keys(b)] == [first, second]
    b.set_epoch(1)
    assert keys(b) == second
    assert keys(dataset(folder, shuffle=8, seed=4)) != first
    assert keys(dataset(folder)) == keys(dataset(folder)) != first
    assert keys(dataset(folder, shuffle=1000, seed=3)) != first


def test_a_shuffled_order_is_the_same_on_every_machine(folder):
    """Written down: a state that was saved yesterday must not go on in another order."""
    found = keys(dataset(folder, shuffle=4, seed=1))
    expected = "3/000 3/004 3/001 3/002 3/006 3/003 1/000 1/002 3/005 3/007 1/003 4/000"
    assert " ".join(found[:12]) == expected


@pytest.mark.parametrize("shuffle", [0, 1, 7, 1000])
def test_an_iteration_goes_on_where_it_was(folder, shuffle):
    """After each number of samples, in a process that has read nothing, and through JSON."""
    whole = dataset(folder, shuffle=shuffle, seed=9)
    whole.set_epoch(4)
    expected = keys(whole)
    following = keys(whole)
    for count in range(0, len(expected) + 1, 3):
        data = dataset(folder, shuffle=shuffle, seed=9)
        data.set_epoch(4)
        iterator = iter(data)
        assert [next(iterator)["__key__"] for _ in range(count)] == expected[:count]
        state = json.loads(json.dumps(data.state_dict()))
        resumed = dataset(folder, shuffle=shuffle, seed=9)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert keys(resumed) == expected[count:], count
        assert keys(resumed) == following
        assert keys(iterator) == expected[count:], "a state changes nothing"


def test_an_epoch_that_is_named_again_goes_on_where_it_was(folder):
    """A training that says each epoch read the one that was interrupted from its start."""
    data = dataset(folder, shuffle=5)
    data.set_epoch(2)
    iterator = iter(data)
    first = [next(iterator)["__key__"] for _ in range(7)]
    state = data.state_dict()
    expected = [keys(iterator), keys(data)]
    resumed, other = dataset(folder, shuffle=5), dataset(folder, shuffle=5)
    resumed.load_state_dict(state)
    found = []
    for epoch in (2, 3):
        resumed.set_epoch(epoch)
        found.append(keys(resumed))
    assert found == expected and sorted(first + found[0]) == ALL
    other.load_state_dict(state)
    other.set_epoch(3)
    assert keys(other) == expected[1]


def test_a_state_between_epochs_and_of_another_data_set(folder):
    data = dataset(folder, shuffle=3)
    first = keys(data)
    state = data.state_dict()
    again = dataset(folder, shuffle=3)
    again.load_state_dict(state)
    assert keys(again) == keys(data) != first
    for other, what in [
        (dataset(folder, shuffle=4), "shuffle"),
        (dataset(folder, shuffle=3, seed=1), "seed"),
        (dataset(folder, shuffle=3, rank=0, world=2), "part"),
        (ShardDataset([str(folder / "train-000.tar")], shuffle=3), "shards"),
    ]:
        with pytest.raises(ValueError, match=f"its {what} is"):
            other.load_state_dict(state)


@pytest.mark.parametrize("world", [1, 2, 5, 6, 7, 20])
def test_ranks_read_each_sample_once(folder, world):
    parts = [keys(dataset(folder, shuffle=5, rank=rank, world=world)) for rank in range(world)]
    assert sorted(sum(parts, [])) == ALL
    if world <= 6:
        shards = [{key[0] for key in part} for part in parts]
        assert sum(map(len, shards)) == 6, "whole shards"
    resumed = dataset(folder, shuffle=5, rank=world - 1, world=world)
    iterator = iter(resumed)
    count = len(parts[-1]) // 2
    for _ in range(count):
        next(iterator)
    other = dataset(folder, shuffle=5, rank=world - 1, world=world)
    other.load_state_dict(resumed.state_dict())
    assert keys(other) == parts[-1][count:]


def test_threads_read_parts_of_one_engine(folder):
    data = dataset(folder, shuffle=4)
    found, lock = [], threading.Lock()

    def read(number):
        part = keys(data.reader(number, 3))
        with lock:
            found.extend(part)

    threads = [threading.Thread(target=read, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ALL


def test_shards_of_a_bucket(engine, store, folder):
    for shard in folder.rglob("*.tar"):
        store.put(f"train/{shard.relative_to(folder)}", shard.read_bytes())
    store.put("train/README", b"no shard")
    store.names_in_page = 4
    settings = {"engine": engine, "storage_options": store.options}
    data = ShardDataset("s3://bucket/train/", shuffle=6, **settings)
    assert len(data.shards) == 6 and data.shards[0] == "s3://bucket/train/sub/train-003.tar"
    found = list(data)
    assert sorted(keys(found)) == ALL
    assert all(each["jpg"] == sample_bytes(f"{each['__key__']}.jpg") for each in found)
    gets = store.gets()
    assert sorted(keys(data)) == ALL and store.gets() == gets, "the pages stay"
    ranges = ShardDataset("s3://bucket/train/train-00{0..2}.tar", **settings)
    assert sorted(keys(ranges)) == [key for key in ALL if key[0] in "012"]


def test_names_with_ranges(tmp_path, engine):
    assert expand("a-{08..11}.tar", engine) == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert expand("{0..1}/{5..6}.tar", engine) == ["0/5.tar", "0/6.tar", "1/5.tar", "1/6.tar"]
    assert expand(["x", "y"], engine) == ["x", "y"] and expand("x.tar", engine) == ["x.tar"]
    assert expand(f"file://{tmp_path}/a.tar", engine) == [f"file://{tmp_path}/a.tar"]
    with pytest.raises(ValueError, match="ends before"):
        expand("{3..1}.tar", engine)
    with pytest.raises(FileNotFoundError, match="no .tar there"):
        expand(tmp_path, engine)
    with pytest.raises(FileNotFoundError):
        list(ShardDataset(tmp_path / "missing.tar"))


def test_settings_that_make_no_sense(folder):
    ranks = [{"rank": 0}, {"rank": 2, "world": 2}, {"rank": -1, "world": 2}]
    for settings in [{"shuffle": -1}, *ranks]:
        with pytest.raises(ValueError):
            ShardDataset(folder, **settings)
    with pytest.raises(ValueError, match="part 3 of 3"):
        dataset(folder).reader(3, 3)


def test_a_forked_child_and_a_pickle_read_the_same(folder):
    data = ShardDataset(folder, shuffle=5, transform=key_of)
    iterator = iter(data)
    first = [next(iterator) for _ in range(4)]
    state = data.state_dict()

    def child():
        data.load_state_dict(state)
        return first + list(data) == expected

    expected = first + list(iterator)
    assert sorted(expected) == ALL
    assert in_child(child)
    copy = pickle.loads(pickle.dumps(data))
    copy.load_state_dict(state)
    assert first + list(copy) == expected


def key_of(sample):
    return sample["__key__"]
