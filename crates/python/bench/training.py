"""Reads the samples of tar shards of a bucket for training, through foreread.torch and others.

    training.py 'READER;WORKERS'     one run, as a line of JSON; `lab.py --only training` calls it

The options for s3fs are JSON in the variable S3_OPTIONS, the bucket is `lab`, the shards are
`shards/*.tar`. Needs PyTorch; `s3torchconnector` needs its package.
"""

import io
import json
import os
import sys
import tarfile
import time

SHARDS, SAMPLES, SAMPLE = 8, 256, 110 << 10


def make(folder):
    """Writes shards of samples: an image's bytes and a label each."""
    os.makedirs(f"{folder}/shards")
    for shard in range(SHARDS):
        with tarfile.open(f"{folder}/shards/{shard:02}.tar", "w") as tar:
            for number in range(SAMPLES):
                for name, data in (("jpg", os.urandom(SAMPLE)), ("cls", b"%d" % (number % 10))):
                    member = tarfile.TarInfo(f"{shard:02}-{number:04}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def of_tar(file):
    """Yields the samples of a tar that is read as a stream."""
    sample = {}
    with tarfile.open(fileobj=file, mode="r|", bufsize=128 << 10) as tar:
        for member in tar:
            stem, _, kind = member.name.partition(".")
            if sample and sample["__key__"] != stem:
                yield sample
                sample = {}
            sample["__key__"] = stem
            sample[kind] = tar.extractfile(member).read()
    if sample:
        yield sample


def decoded(sample):
    """What a training would do first: a tensor of the bytes, and the label."""
    import torch

    key = "jpg" if "jpg" in sample else ".jpg"
    pixels = torch.frombuffer(bytearray(sample[key]), dtype=torch.uint8)
    return pixels.float().mean()


def part(names):
    """The shards of this worker."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return names if info is None else names[info.id :: info.num_workers]


def with_foreread(options):
    from foreread.torch import ShardDataset

    return ShardDataset("s3://lab/shards/", storage_options=options, transform=decoded)


def with_s3fs(options):
    import s3fs
    from torch.utils.data import IterableDataset

    class Shards(IterableDataset):
        def __iter__(self):
            fs = s3fs.S3FileSystem(**options, skip_instance_cache=True)
            for number in part(range(SHARDS)):
                with fs.open(f"lab/shards/{number:02}.tar") as file:
                    yield from map(decoded, of_tar(file))

    return Shards()


def with_s3torchconnector(options):
    from s3torchconnector import S3ClientConfig, S3IterableDataset
    from torch.utils.data import IterableDataset

    client = options["client_kwargs"]
    os.environ["AWS_ACCESS_KEY_ID"] = options["key"]
    os.environ["AWS_SECRET_ACCESS_KEY"] = options["secret"]

    class Shards(IterableDataset):
        def __iter__(self):
            objects = S3IterableDataset.from_prefix(
                "s3://lab/shards/",
                region=client["region_name"],
                endpoint=client["endpoint_url"],
                s3client_config=S3ClientConfig(force_path_style=True),
                enable_sharding=True,
            )
            for reader in objects:
                yield from map(decoded, of_tar(reader))

    return Shards()


READERS = {
    "foreread": with_foreread,
    "s3fs": with_s3fs,
    "s3torchconnector": with_s3torchconnector,
}


def main():
    name, workers = sys.argv[-1].rsplit(";", 1)
    from torch.utils.data import DataLoader

    dataset = READERS[name](json.loads(os.environ["S3_OPTIONS"]))
    loader = DataLoader(dataset, batch_size=32, num_workers=int(workers))
    start = time.perf_counter()
    batches = iter(loader)
    first = next(batches)
    begun = time.perf_counter()
    count = sum(len(batch) for batch in batches)
    seconds = time.perf_counter() - begun
    figures = {"samples_per_s": count / seconds, "first_s": begun - start}
    print(json.dumps({**figures, "samples": count + len(first)}), flush=True)


if __name__ == "__main__":
    main()
