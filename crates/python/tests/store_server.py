"""An S3 server in memory for tests: ranges, versions, listings, refusals, late answers."""

import http.server
import os
import pathlib
import ssl
import threading
import urllib.parse
from xml.sax.saxutils import escape

BUCKET = "bucket"


class StoreServer:
    """A bucket behind the S3 protocol. It counts the requests, and can be told to misbehave."""

    def __init__(self, certificate: tuple[str, str] | None = None) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self.key: str | None = None
        self.names_in_page = 1000
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = threading.Event()
        self._versions = 0
        self._lock = threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            listener = self._server.socket
            self._server.socket = context.wrap_socket(listener, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> dict[str, object]:
        """What s3fs would be given for this store."""
        return {
            "key": "lab",
            "secret": "secret",
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "us-east-1"},
        }

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program that knows this store, and no other."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return clean | {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "lab",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def put(self, key: str, data: bytes) -> str:
        """Puts an object in place of the one that is there, and returns its URL."""
        self._versions += 1
        self.objects[key] = (data, self._versions)
        return f"s3://{BUCKET}/{key}"

    def put_folder(self, key: str, folder: pathlib.Path) -> None:
        """Puts the files below a folder as objects below a prefix."""
        for path in filter(pathlib.Path.is_file, folder.rglob("*")):
            self.put(f"{key}/{path.relative_to(folder)}", path.read_bytes())

    def note(self, method: str, path: str, wanted: str | None) -> None:
        with self._lock:
            self.requests.append((method, path, wanted))
        self.asked.set()

    def gets(self) -> int:
        """How many requests there were for bytes."""
        return sum(method == "GET" and "list-type" not in path for method, path, _ in self.requests)

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


def _handler_of(store: StoreServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format, *args):
            pass

        def setup(self):
            super().setup()
            self.wfile = self.connection.makefile("wb", 1 << 16)

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            store.note(self.command, self.path, self.headers.get("Range"))
            store.may_answer.wait()
            url = urllib.parse.urlsplit(self.path)
            signature = self.headers.get("Authorization", "")
            if store.key and f"Credential={store.key}/" not in signature:
                return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
            key = urllib.parse.unquote(url.path).removeprefix(f"/{BUCKET}").removeprefix("/")
            query = urllib.parse.parse_qs(url.query)
            if "list-type" in query:
                return self.answer(200, self.listing(query))
            found = store.objects.get(key)
            if found is None:
                return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            data, version = found
            tag = f'"{version}"'
            if self.headers.get("If-Match", tag) != tag:
                return self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            headers = {"ETag": tag, "Last-Modified": "Tue, 24 Nov 2026 10:00:00 GMT"}
            wanted = self.headers.get("Range")
            if wanted is None:
                return self.answer(200, data, headers)
            start, _, last = wanted.removeprefix("bytes=").partition("-")
            part = data[int(start) : int(last) + 1]
            headers["Content-Range"] = f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}"
            return self.answer(206, part, headers)

        def listing(self, query):
            prefix = query.get("prefix", [""])[0]
            after = query.get("continuation-token", [""])[0]
            names = set()
            for key in store.objects:
                if key.startswith(prefix):
                    name, slash, _ = key[len(prefix) :].partition("/")
                    is_directory = slash and "delimiter" in query
                    names.add((prefix + name + "/", True) if is_directory else (key, False))
            rest = sorted(name for name in names if name[0] > after)
            page = rest[: store.names_in_page]
            out = ["<?xml version='1.0'?><ListBucketResult>"]
            out.append(f"<IsTruncated>{str(len(rest) > len(page)).lower()}</IsTruncated>")
            if len(rest) > len(page):
                out.append(f"<NextContinuationToken>{page[-1][0]}</NextContinuationToken>")
            for name, is_directory in sorted(page, key=lambda item: item[1]):
                if is_directory:
                    out.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
                    continue
                data, version = store.objects[name]
                out.append(
                    f"<Contents><Key>{escape(name)}</Key><Size>{len(data)}</Size>"
                    f"<LastModified>2026-11-24T10:00:00.000Z</LastModified>"
                    f"<ETag>&quot;{version}&quot;</ETag></Contents>"
                )
            return "".join([*out, "</ListBucketResult>"]).encode()

        def answer(self, status, body, headers=None):
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.wfile.flush()

    return Handler
