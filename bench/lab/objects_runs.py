"""The runs of bench/lab/objects: readers of a slow store take turns at each workload.

objects_runs.py OUT ROUNDS LINK WORK READER..   appends one line of JSON for each run to OUT
objects_runs.py --list                          the readers that this machine has

In the environment: LAB (a directory in memory), STORE (the slow store's links and its control
port, as it prints them), FOREREAD, LOAD, VENV.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

LAB, VENV = os.environ["LAB"], os.environ["VENV"]
FOREREAD, LOAD = os.environ["FOREREAD"], os.environ["LOAD"]
HERE = os.path.dirname(os.path.abspath(__file__))
PORTS = dict(line.split() for line in open(os.environ["STORE"]))
KEYS = {"AWS_ACCESS_KEY_ID": "lab", "AWS_SECRET_ACCESS_KEY": "labsecret", "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true", "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"}
TICKS = os.sysconf("SC_CLK_TCK")


class Reader:
    """A way to read; `start` brings up its server, if it has one."""

    def __init__(self, target=None):
        self.target, self.servers, self.mount = target, [], None

    def start(self, link):
        self.link = link
        self.env = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": PORTS[link]}

    def load(self, work, key):
        return [LOAD, work, self.target.replace("KEY", key)]

    def spawn(self, *command, ready, **env):
        """Starts a server and waits until `ready` says so."""
        log = open(f"{LAB}/readers.log", "ab")
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  env={**self.env, **env})
        self.servers.append(server)
        for _ in range(400):
            if ready():
                return
            if server.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"{command[0]} does not come up: see {LAB}/readers.log")

    def stop(self):
        if self.mount:
            subprocess.run(["umount", "-l", self.mount], check=False, capture_output=True)
        for server in self.servers:
            if not self.mount:
                server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self.servers = []


class Mount(Reader):
    """A file system over FUSE. `command` has @ for the directory and URL for the endpoint."""

    def __init__(self, command, env=None):
        super().__init__()
        self.command, self.more = command, env or {}

    def start(self, link):
        super().start(link)
        self.mount = f"{LAB}/mount"
        os.makedirs(self.mount, exist_ok=True)
        names = {"@": self.mount, "URL": PORTS[link]}
        fill = lambda text: next((text.replace(n, v) for n, v in names.items() if n in text), text)
        self.spawn(*map(fill, self.command), ready=lambda: os.path.ismount(self.mount),
                   **{name: fill(value) for name, value in self.more.items()})

    def load(self, work, key):
        return [LOAD, work, f"path:{self.mount}/{key}"]


def read_once(reader):
    """So that what is learnt of the store is there the next time."""
    subprocess.run(reader.load("seq128k", "big.bin"), input=b"\n\n\n", env=reader.env, check=True,
                   capture_output=True)


class RememberedMount(Mount):
    """A mount that has read from this store before."""

    def start(self, link):
        self.command[-1] = f"{LAB}/devices-{link}"
        if not os.path.isdir(self.command[-1]):
            super().start(link)
            read_once(self)
            self.stop()
        super().start(link)


class RememberedStore(Reader):
    """The library, with what an earlier process has learnt of this store."""

    def start(self, link):
        super().start(link)
        self.env["REMEMBER"] = f"{LAB}/store-{link}"
        if not os.path.isdir(self.env["REMEMBER"]):
            read_once(self)


class Nbd(Reader):
    """A server of one object. `command` has @ for the socket, URL for the endpoint, KEY."""

    def __init__(self, *command):
        super().__init__()
        self.command = command

    def load(self, work, key):
        socket = f"{LAB}/nbd"
        if os.path.exists(socket):
            os.remove(socket)
        url = PORTS[self.link]
        fill = lambda text: text.replace("@", socket).replace("URL", url).replace("KEY", key)
        self.spawn(*map(fill, self.command), ready=lambda: os.path.exists(socket), TMPDIR=LAB)
        return [LOAD, work, f"nbd:{socket}"]


class Fsspec(Reader):
    def __init__(self, cache, *options):
        super().__init__()
        self.cache, self.options = cache, options

    def load(self, work, key):
        return [f"{VENV}/bin/python", f"{HERE}/objects_fsspec.py", work, self.cache, f"lab/{key}",
                *self.options]


RCLONE = [f"{VENV}/bin/rclone", "mount", ":s3:lab", "@", "--read-only", "--config", "/dev/null"]
RCLONE_ENV = {"RCLONE_S3_PROVIDER": "Other", "RCLONE_S3_ENDPOINT": "URL",
              "RCLONE_S3_ENV_AUTH": "true",
              "RCLONE_S3_FORCE_PATH_STYLE": "true", "RCLONE_S3_LIST_VERSION": "2"}
S3FS = ["s3fs", "lab", "@", "-f", "-o",
        "url=URL,use_path_request_style,endpoint=us-east-1,ro,sigv4,listobjectsv2,tmpdir=" + LAB]
S3FS_ENV = {"AWSACCESSKEYID": "lab", "AWSSECRETACCESSKEY": "labsecret"}
NBDKIT = ["nbdkit", "-f", "-r", "-U", "@"]
# Memory that is there before the clock starts, as that of a server that has read before.
MOUNT = [FOREREAD, "mount", "s3://lab/", "@", "--prefault"]

# What each needs of the machine, and how it is made.
READERS = {
    "gets": (None, lambda: Reader("get:s3://lab/KEY")),
    "foreread": (None, lambda: Reader("engine:s3://lab/KEY")),
    "foreread mount": (None, lambda: Mount([*MOUNT, "--no-remember"])),
    "foreread mount, store seen before": (None, lambda: RememberedMount(
        [*MOUNT, "--remember", ""])),
    "foreread, store seen before": (None, lambda: RememberedStore("engine:s3://lab/KEY")),
    "foreread serve": (None, lambda: Nbd(FOREREAD, "serve", "s3://lab/KEY", "--read-only",
                                         "--no-remember", "--prefault", "--unix", "@")),
    "rclone": (RCLONE[0], lambda: Mount(RCLONE, RCLONE_ENV)),
    "rclone, 16 streams of 4M": (RCLONE[0], lambda: Mount(
        [*RCLONE, "--vfs-read-chunk-streams", "16", "--vfs-read-chunk-size", "4M"], RCLONE_ENV)),
    "s3fs-fuse, 16 of 16M": ("s3fs", lambda: Mount(
        [*S3FS, "-o", "parallel_count=16,multipart_size=16"], S3FS_ENV)),
    "fsspec, readahead": (f"{VENV}/bin/python", lambda: Fsspec("readahead")),
    "fsspec, background 4M": (f"{VENV}/bin/python", lambda: Fsspec(
        "background", "block_size=4194304")),
    "fsspec, adaptive": (f"{VENV}/bin/python", lambda: Fsspec("adaptive")),
    "nbdkit, readahead": ("nbdkit", lambda: Nbd(
        *NBDKIT, "--filter=readahead", "--filter=cache", "curl", "url=URL/lab/KEY",
        "cache-on-read=true")),
    "nbdkit, cache 4M": ("nbdkit", lambda: Nbd(
        *NBDKIT, "--filter=cache", "curl", "url=URL/lab/KEY", "cache-on-read=true",
        "cache-min-block-size=4M")),
}


def has(name):
    """Whether the machine has what a reader needs."""
    needs = READERS[name][0]
    if needs is None:
        return True
    if name.startswith("rclone") and not shutil.which("fusermount3"):
        return False
    if not name.startswith("fsspec"):
        return shutil.which(needs) is not None
    cache = READERS[name][1]().cache
    code = f"import s3fs, fsspec.caching as c; c.caches[{cache!r}]"
    return os.path.exists(needs) and subprocess.run(
        [needs, "-c", code], capture_output=True, check=False).returncode == 0


def control(what):
    return urllib.request.urlopen(f"{PORTS['control']}/{what}").read()


def settled(link):
    """The counters, once nothing is in flight; after two seconds as they are."""
    for _ in range(100):
        stats = json.loads(control("stats"))[link]
        if stats["at_once"] == 0:
            break
        time.sleep(0.02)
    return stats


def cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak(pid):
    """Resident memory since it was forgotten, in KiB."""
    return int(open(f"/proc/{pid}/status").read().split("VmHWM:")[1].split()[0])


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def run(name, work, link):
    """One run of a fresh process, as a dictionary."""
    key = {"paced32": "mid/{}.bin", "inter2": "part.bin", "inter8": "part.bin"}.get(work, "big.bin")
    reader, load = READERS[name][1](), None
    signal.alarm(60)
    try:
        reader.start(link)
        command = reader.load(work, key)
        load = subprocess.Popen(command, env=reader.env, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=open(f"{LAB}/readers.log", "ab"))
        go = lambda: (load.stdin.write("\n"), load.stdin.flush())
        assert load.stdout.readline() == "ready\n", f"see {LAB}/readers.log"
        if work == "reread":
            go()
            assert load.stdout.readline() == "ready\n", f"see {LAB}/readers.log"
        settled(link)
        control("reset")
        pids = [server.pid for server in reader.servers]
        for pid in pids:
            forget_peak(pid)
        before = sum(map(cpu, pids))
        go()
        it = json.loads(load.stdout.readline())
        used = sum(map(cpu, pids)) - before
        memory = sum(map(peak, pids))
        store = settled(link)
        assert load.stdout.readline() == "done\n"
        go()
        load.wait()
    finally:
        signal.alarm(0)
        if load and load.poll() is None:
            load.kill()
        reader.stop()
    it["cpu_s"] += used
    it["rss_kib"] += memory
    return {"reader": name, "link": link, **it, "store": store}


def too_long(*_):
    raise RuntimeError("no end within 60 s")


def main():
    if sys.argv[1] == "--list":
        for name in READERS:
            needs = os.path.basename(READERS[name][0] or "")
            needs += " and fusermount3" if name.startswith("rclone") else ""
            print(name if has(name) else f"{name}\tmissing: {needs}")
        return
    signal.signal(signal.SIGALRM, too_long)
    out, rounds, link, work, *names = sys.argv[1:]
    first = int(os.environ.get("FIRST_ROUND", "0"))
    for number in range(first, first + int(rounds)):
        for turn in range(len(names)):
            name = names[(number + turn) % len(names)]
            if work == "paced32" and isinstance(READERS[name][1](), Nbd):
                continue  # these servers have one object each
            try:
                it = run(name, work, link)
            except (AssertionError, RuntimeError, ValueError, OSError) as error:
                it = {"reader": name, "link": link, "work": work, "error": str(error)}
                print(f"{link}, {work}, {name}: {error}", file=sys.stderr)
            with open(out, "a") as file:
                file.write(json.dumps({"round": number, **it}) + "\n")


main()
