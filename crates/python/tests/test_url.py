"""URLs of stores, read by the engine's own clients: no fsspec, no Python below a read."""

import asyncio
import errno
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading

import pytest

import foreread
from conftest import in_child, pattern
from foreread._storage_options import settings_of
from store_server import StoreServer


@pytest.fixture
def opened(engine, store, data):
    return engine.open(store.put("folder/data", data), storage_options=store.options)


def test_an_object_is_a_file(opened, store, data):
    assert opened.name == "s3://bucket/folder/data" and opened.size == len(data)
    assert opened.etag == '"1"' and opened.last_modified == 1795514400.0
    assert opened.version_id is None
    assert opened.read(10) == data[:10] and opened.tell() == 10
    opened.seek(-5, os.SEEK_END)
    assert opened.read() == data[-5:] and opened.pread(5, len(data)) == b""
    rng = random.Random(3)
    for _ in range(50):
        at, size = rng.randrange(len(data)), rng.choice([1, 4096, 100_000])
        assert opened.pread(size, at) == data[at : at + size]
    ranges = [(5, 10), (1 << 20, (1 << 20) + 9000), (7, 7)]
    assert opened.read_ranges(ranges) == [data[start:end] for start, end in ranges]
    buffer = bytearray(300_000)
    assert opened.preadinto(buffer, 77) == 300_000 and buffer == data[77:300_077]
    assert bytes(opened.pin(8192)) == data[8192:12288]
    assert all(wanted for method, _, wanted in store.requests if method == "GET")


def test_small_reads_in_order_become_few_requests(opened, store, data):
    parts = []
    while part := opened.read(4096):
        parts.append(part)
    assert b"".join(parts) == data
    assert store.gets() < len(data) / 4096 / 20


def test_counters_have_requests_and_bytes(engine, opened, store):
    opened.pread(4096, 0)
    counters = engine.counters()
    assert counters["store_requests"] == len(store.requests) > 1
    assert counters["store_bytes"] >= 4096
    assert counters["store_failed"] == counters["store_throttled"] == 0


def test_two_opens_of_one_version_have_one_set_of_pages(engine, opened, store, data):
    assert opened.read() == data
    gets = store.gets()
    again = engine.open(opened.name, storage_options=store.options)
    # Opening asks for the first byte, whose answer has the length and the version.
    assert again.read() == data and store.gets() == gets + 1


def test_the_environment_says_what_options_do_not(store, data):
    url = store.put("a b/\u00e4", data)
    store.key = "lab"
    code = f"""
import foreread
file = foreread.open({url!r})
assert file.read(100) == {data[:100]!r}
assert file.name == {url!r}
"""
    settings = {
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_ACCESS_KEY_ID": "lab",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **settings})


def test_an_endpoint_and_a_key_of_the_options_replace_those_of_the_environment(store, data):
    """The endpoint of S3 alone went before that of the options, also with their keys."""
    url = store.put("data", data)
    store.key = "lab"
    other = StoreServer()
    other.put("data", data[::-1])
    code = f"""
import foreread
file = foreread.open({url!r}, storage_options={store.options!r})
assert file.read(100) == {data[:100]!r}
"""
    settings = {
        "AWS_ENDPOINT_URL_S3": other.endpoint,
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_SESSION_TOKEN": "of another key",
    }
    try:
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **settings})
    finally:
        other.close()
    assert not other.requests


def test_the_stores_of_google_and_azure_and_a_web_server(engine, store, data):
    store.put("data", data)
    store.put("account/bucket/data", data)
    key = {
        "gcs_base_url": store.endpoint,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    for url, options in [
        (f"{store.endpoint}/bucket/data", {}),
        ("gs://bucket/data", {"token": key, "allow_http": True}),
        ("gs://bucket/data", {"endpoint_url": store.endpoint, "token": "anon"}),
        (
            "az://bucket/data",
            {"account_name": "account", "anon": True, "endpoint": f"{store.endpoint}/account"},
        ),
    ]:
        file = engine.open(url, storage_options=options)
        assert file.pread(100, 1 << 20) == data[1 << 20 : (1 << 20) + 100], url


def test_a_file_url_is_the_path(engine, path, data):
    file = engine.open(f"file://{path}")
    assert file.read() == data and file.name == str(path)
    with pytest.raises(ValueError, match="storage_options"):
        engine.open(path, storage_options={"anon": True})


def test_errors_are_os_errors_with_errno_and_url(engine, store):
    with pytest.raises(FileNotFoundError) as raised:
        engine.open("s3://bucket/missing", storage_options=store.options)
    assert raised.value.errno == errno.ENOENT
    assert raised.value.filename == "s3://bucket/missing"
    store.put("there", b"abc")
    store.key = "another"
    with pytest.raises(PermissionError) as raised:
        engine.open("s3://bucket/there", storage_options=store.options)
    assert raised.value.filename == "s3://bucket/there"
    for url in ["s3://bucket/", "s3://bucket", "ftp://host/file", "s3://bucket/a//b"]:
        with pytest.raises(OSError) as raised:
            engine.open(url, storage_options=store.options)
        assert raised.value.errno == errno.EINVAL and raised.value.filename == url
    with pytest.raises(OSError) as raised:
        engine.open("http://user:hush@127.0.0.1/x")
    assert "hush" not in str(raised.value).replace("http://user:hush@127.0.0.1/x", "")


def test_an_option_without_a_counterpart_is_named(engine, store):
    for options in [{"profile": "mine"}, {"client_kwargs": {"verify": ""}}, {"keey": "x"}]:
        with pytest.raises(ValueError, match="profile|verify|keey"):
            engine.open("s3://bucket/there", storage_options=options)
    with pytest.raises(OSError, match="aws_regoin"):
        engine.open("s3://bucket/there", storage_options={"aws_regoin": "x"})


def test_options_of_fsspec_become_settings(monkeypatch):
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"]:
        monkeypatch.delenv(name, raising=False)

    def settings(url, **options):
        return dict(settings_of(url, options))

    assert settings("s3://b/k", key="a", secret="b", token="c", anon=False) == {
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_session_token": "c",
        "aws_skip_signature": "false",
    }
    assert settings("s3://b/k", endpoint_url="https://host", default_block_size=5) == {
        "aws_endpoint_url": "https://host"
    }
    kwargs = {"s3": {"addressing_style": "virtual"}, "connect_timeout": 5}
    assert settings("s3a://b/k", config_kwargs=kwargs, requester_pays=True) == {
        "aws_virtual_hosted_style_request": "true",
        "connect_timeout": "5 s",
        "aws_request_payer": "true",
    }
    host = {"client_kwargs": {"endpoint_url": "https://host:9000"}, "config_kwargs": kwargs}
    assert settings("s3://b/k", **host)["aws_endpoint_url"] == "https://b.host:9000", (
        "without its name the first part of a key was the bucket"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://b.host/x")
    assert "aws_endpoint_url" not in settings("s3://b/k", config_kwargs=kwargs)
    assert settings("s3://c/k", config_kwargs=kwargs)["aws_endpoint_url"] == "https://c.b.host/x"
    assert settings("s3://b/k", client_kwargs={"verify": "/ca.pem"}) == {"ca_bundle": "/ca.pem"}
    assert settings("gs://b/k", ca_bundle="/ca.pem") == {"ca_bundle": "/ca.pem"}
    assert settings("gs://b/k", token="/key.json", project="p") == {
        "google_application_credentials": "/key.json"
    }
    assert settings("abfs://b/k", connection_string="AccountName=a;AccountKey=k==;X=y") == {
        "azure_storage_account_name": "a",
        "azure_storage_account_key": "k==",
    }
    china = "DefaultEndpointsProtocol=https;AccountName=a;EndpointSuffix=core.chinacloudapi.cn"
    assert settings("az://b/k", connection_string=china) == {
        "azure_storage_account_name": "a",
        "azure_storage_endpoint": "https://a.blob.core.chinacloudapi.cn",
    }
    local = settings("az://b/k", connection_string="UseDevelopmentStorage=true")
    assert local == {"azure_storage_use_emulator": "true"}
    assert settings("https://host/file", user_agent="me") == {"user_agent": "me"}


def test_an_object_that_is_replaced_is_an_error_that_says_so(opened, store, data):
    assert opened.pread(10, 0) == data[:10]
    store.put("folder/data", data[::-1])
    for read in [
        lambda: opened.pread(10, len(data) - 10),
        lambda: opened.read_ranges([(len(data) - 10, len(data))]),
        lambda: asyncio.run(_one(opened, len(data) - 10)),
    ]:
        with pytest.raises(foreread.ObjectChangedError, match="open it again") as raised:
            read()
        assert raised.value.errno == errno.ESTALE and raised.value.filename == opened.name
    assert opened.pread(10, 0) == data[:10], "what was read stays"
    again = pickle.loads(pickle.dumps(opened))
    assert again.pread(10, 0) == data[::-1][:10]


async def _one(file, at):
    return await file.pread_async(10, at)


def test_many_reads_at_once_on_an_event_loop(opened, data):
    async def main():
        offsets = range(0, len(data), 40_000)
        return await asyncio.gather(*(opened.pread_async(500, at) for at in offsets))

    parts = asyncio.run(main())
    assert parts == [data[at : at + 500] for at in range(0, len(data), 40_000)]


@pytest.mark.parametrize("act", ["open", "read", "ranges", "pin", "list"])
def test_ctrl_c_ends_a_wait(engine, store, opened, act):
    store.may_answer.clear()
    store.asked.clear()
    acts = {
        "open": lambda: engine.open(store.put("other", b"x"), storage_options=store.options),
        "read": lambda: opened.pread(10, 0),
        "ranges": lambda: opened.read_ranges([(0, 10)]),
        "pin": lambda: opened.pin(0),
        "list": lambda: engine.list_url("s3://bucket/", storage_options=store.options),
    }

    def interrupt():
        store.asked.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        acts[act]()
    thread.join()
    store.may_answer.set()
    assert opened.pread(10, 5) == store.objects["folder/data"][0][5:15]


def test_a_store_that_does_not_answer_times_out(store):
    engine = foreread.Engine("8MiB", timeout=0.3)
    store.put("data", bytes(10_000))
    file = engine.open("s3://bucket/data", storage_options=store.options)
    store.may_answer.clear()
    with pytest.raises(TimeoutError) as raised:
        file.pread(10, 0)
    assert raised.value.filename == "s3://bucket/data"
    with pytest.raises(TimeoutError):
        engine.open("s3://bucket/other", storage_options=store.options)
    store.may_answer.set()
    assert file.pread(10, 0) == bytes(10)


def test_other_threads_run_while_one_waits(opened, store):
    """The server is a thread of this interpreter: a wait that held its lock would never end."""
    store.may_answer.clear()
    store.asked.clear()
    reader = threading.Thread(target=opened.pread, args=[10, 0])
    reader.start()
    store.asked.wait()
    assert sum(range(10_000)) == 49_995_000
    store.may_answer.set()
    reader.join()


def test_a_pickled_file_is_opened_again_where_it_was(opened, store, data):
    opened.seek(1234)
    copy = pickle.loads(pickle.dumps(opened))
    assert copy.read(100) == data[1234:1334] and copy._engine is opened._engine
    code = f"""
import pickle
a, b = pickle.loads({pickle.dumps([opened, opened])!r})
assert a.read(100) == {data[1234:1334]!r} and a.etag == {opened.etag!r}
assert a._engine.counters()["store_requests"] >= 2
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_forked_child_opens_urls_anew(engine, opened, store, data):
    url, options = opened.name, store.options
    assert opened.read() == data
    default = foreread.open(url, storage_options=options)

    def refuses(call):
        try:
            call()
        except foreread.EngineForkedError as error:
            return error.filename == url
        return False

    def child():
        mine = foreread.open(url, storage_options=options)
        return (
            all(
                [
                    refuses(lambda: opened.pread(10, 0)),
                    refuses(lambda: default.pread(10, 1 << 20)),
                    refuses(lambda: engine.open(url, storage_options=options)),
                    refuses(lambda: engine.list_url(url, storage_options=options)),
                ]
            )
            and mine.read() == data
            and in_child(
                lambda: foreread.open(url, storage_options=options).pread(9, 5) == data[5:14]
            )
        )

    assert in_child(child)
    assert opened.pread(100, 70) == data[70:170]


def _read_by_worker(job):
    url, options, at = job
    with foreread.open(url, storage_options=options) as file:
        return file.pread(5000, at)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_read_urls(method, opened, store, data):
    assert opened.pread(10, 0) == data[:10]
    jobs = [(opened.name, store.options, at) for at in range(0, len(data), 500_000)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        parts = pool.map(_read_by_worker, jobs)
        copies = pool.map(type(opened).read, [opened] * 2)
    assert parts == [data[at : at + 5000] for _, _, at in jobs]
    assert copies == [data, data]


def test_threads_read_one_object_byte_for_byte(store):
    data = pattern(5 * (1 << 20) + 123)
    engine = foreread.Engine("2MiB")
    file = engine.open(store.put("large", data), storage_options=store.options)
    wrong = []

    def read(seed):
        rng = random.Random(seed)
        for _ in range(60):
            at, size = rng.randrange(len(data)), rng.choice([100, 4096, 70_000])
            if file.pread(size, at) != data[at : at + size]:
                wrong.append((seed, at, size))

    threads = [threading.Thread(target=read, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_interpreter_ends_while_requests_are_on_their_way(store, data):
    url = store.put("data", data)
    code = f"""
import threading, foreread
file = foreread.open({url!r}, storage_options={store.options!r})
file.advise("random")
print(len(file.pread(10, 0)), flush=True)
input()
threading.Thread(target=file.pread, args=[10, 1 << 20], daemon=True).start()
file.will_need([(1 << 21, 3 << 20)])
print("end", flush=True)
"""
    for _ in range(3):
        store.may_answer.set()
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout.readline() == "10\n"
        store.may_answer.clear()
        out, errors = child.communicate("\n", timeout=60)
        assert (out, errors, child.returncode) == ("end\n", "", 0)


def test_a_prefix_is_listed(engine, store):
    for key in ["a/1", "a/2", "a/b/3", "a/b/4", "c"]:
        store.put(key, key.encode())
    store.names_in_page = 2
    options = {"storage_options": store.options}
    assert engine.list_url("s3://bucket/a/", **options) == [("1", 3), ("2", 3), ("b/", None)]
    deep = engine.list_url("s3://bucket/a", recursive=True, **options)
    assert deep == [("1", 3), ("2", 3), ("b/3", 5), ("b/4", 5)]
    assert engine.list_url("s3://bucket/none/", **options) == []
    store.key = "another"
    with pytest.raises(PermissionError) as raised:
        engine.list_url("s3://bucket/a/", **options)
    assert raised.value.filename == "s3://bucket/a/"


def certificate(folder):
    """Makes an authority and a certificate of it for 127.0.0.1."""
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    for line in [
        f"req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=lab -days 30",
        f"req {key} -keyout key.pem -out request -subj /CN=127.0.0.1",
        "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 30 "
        "-extfile names",
    ]:
        subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_server_with_tls_is_read_and_one_that_is_not_trusted_is_not(tmp_path, data):
    server = StoreServer(certificate(tmp_path))
    server.put("data", data)
    code = f"""
import foreread
print(foreread.open("{server.endpoint}/bucket/data").pread(20, 1000))
"""
    results = []
    try:
        for trusted in ["ca.pem", "names"]:
            environment = {**os.environ, "SSL_CERT_FILE": str(tmp_path / trusted)}
            command = [sys.executable, "-c", code]
            results.append(subprocess.run(command, env=environment, capture_output=True, text=True))
    finally:
        server.close()
    assert results[0].stdout.strip() == repr(data[1000:1020]), results[0].stderr
    assert results[1].returncode == 1 and "OSError" in results[1].stderr
    assert "/bucket/data" in results[1].stderr and "certificate" in results[1].stderr.lower()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_file_of_ca_certificates_is_an_option(tmp_path, data):
    """`client_kwargs.verify` with a path was refused, and `AWS_CA_BUNDLE` was not read."""
    server = StoreServer(certificate(tmp_path))
    server.put("data", data)
    try:
        for name in ["ca.pem", "names", "missing"]:
            path = str(tmp_path / name)
            client = {**server.options["client_kwargs"], "verify": path}
            options = {**server.options, "client_kwargs": client}
            if name == "ca.pem":
                file = foreread.open("s3://bucket/data", storage_options=options)
                assert file.pread(20, 1000) == data[1000:1020]
                continue
            with pytest.raises(OSError, match="setting ca_bundle") as raised:
                foreread.open("s3://bucket/data", storage_options=options)
            assert path in str(raised.value)
    finally:
        server.close()


def test_a_name_that_is_listed_is_opened_as_it_is_listed(engine, store):
    """`s3://b/a%20b` was the object `a b`, and names with ? or # could not be opened: shards were
    read twice or never.
    """
    names = ["a b", "a%20b", "ts=2024-01-01 00%3A00/part", "what?", "v1#2", "100%", "a+b", " a "]
    for name in names:
        store.put(f"odd/{name}", name.encode())
    url, options = "s3://bucket/odd/", {"storage_options": store.options}
    listed = engine.list_url(url, recursive=True, **options)
    assert listed == sorted((name, len(name)) for name in names)
    for name in names:
        assert engine.open(url + name, **options).read() == name.encode()
    store.put("unnamed/a//b", b"x")
    assert engine.list_url("s3://bucket/unnamed/", recursive=True, **options) == [("a//b", None)]
    with pytest.raises(OSError, match="empty"):
        engine.open("s3://bucket/unnamed/a//b", **options)
