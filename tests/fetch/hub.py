"""A Hugging Face hub on this host. It redirects large files to a CDN on another port.

hub.faults["main"] and hub.faults["cdn"] make faults. Each is a function that is called with every
request. It may answer the request itself, and then returns True. It may also change what is
sent."""

import hashlib
import json
import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

LARGE_BYTES = 100_000  # files of this size or more are in Git LFS, on the CDN


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    def __init__(self, files, commit=None, branch="main"):
        self.files = files
        text = repr(sorted((path, git_hash(data)) for path, data in files.items()))
        self.commit = commit or hashlib.sha1(text.encode()).hexdigest()
        self.branch = branch

    def has_revision(self, revision):
        return revision in (self.branch, self.commit)

    def entry(self, path):
        data = self.files[path]
        entry = {"type": "file", "path": path, "size": len(data), "oid": git_hash(data)}
        if len(data) >= LARGE_BYTES:
            entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
        return entry

    def tree(self, folder, is_recursive):
        entries, folders = [], set()
        for path in sorted(self.files):
            if folder and not path.startswith(folder + "/"):
                continue
            below = path[len(folder) + 1:] if folder else path
            if "/" in below and not is_recursive:
                name = (folder + "/" if folder else "") + below.split("/")[0]
                if name not in folders:
                    entries.append({"type": "directory", "path": name, "size": 0, "oid": "0" * 40})
                folders.add(name)
            else:
                entries.append(self.entry(path))
        return entries


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def hub(self):
        return self.server.hub

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.hub.requests.append((self.server.name, self.command, self.path, {name.title(): value for name, value in self.headers.items()}))
        fault = self.hub.faults.get(self.server.name)
        if fault and fault(self):
            return
        path = unquote(urlsplit(self.path).path)
        if self.server.name == "cdn":
            self.send_file(self.hub.blobs[path.strip("/")], {"ETag": '"cdn-has-another"'})
            return
        for pattern, answer in ANSWERS.items():
            if match := re.fullmatch(pattern, path):
                self.with_repository(match, answer)
                return
        self.send_text(404, b"no such page")

    def with_repository(self, match, answer):
        kind = "datasets/" if (match[1] or "").startswith("datasets") else ""
        repository = self.hub.repositories.get(kind + match[2])
        if repository is None:
            self.send_text(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self.send_text(403, b"{}", {"X-Error-Code": "GatedRepo",
                                        "X-Error-Message": "Access to it is restricted"})
        elif not repository.has_revision(match[3]):
            self.send_text(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            answer(self, repository, match)

    def send_commit(self, repository, match):
        self.send_text(200, json.dumps({"id": match[2], "sha": repository.commit, "siblings": []}).encode())

    def send_xet_token(self, *_):
        self.send_text(200, b"{}", {"X-Xet-Cas-Url": self.hub.cdn_url, "X-Xet-Access-Token": "of-xet",
                                    "X-Xet-Token-Expiration": "9999999999"})

    def send_tree(self, repository, match):
        query = dict(parse_qsl(urlsplit(self.path).query))
        folder, page = match[4], int(query.get("page", 0))
        is_recursive = query.get("recursive", "").lower() == "true"
        entries = repository.tree(folder, is_recursive)
        if folder and not entries:
            self.send_text(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        size = self.hub.page_size
        headers = {}
        if len(entries) > (page + 1) * size:
            query = f"page={page + 1}" + ("&recursive=true" if is_recursive else "")
            place = urlsplit(self.path).path
            headers["Link"] = f'<{self.hub.url}{place}?{query}>; rel="next"'
        for entry in entries:
            if self.hub.has_xet and "lfs" in entry:
                entry["xetHash"] = entry["lfs"]["oid"][::-1]
                self.hub.blobs[entry["xetHash"]] = repository.files[entry["path"]]
        entries = self.hub.change_tree(entries[page * size:(page + 1) * size])
        self.send_text(200, json.dumps(entries).encode(), headers)

    def send_resolved(self, repository, match):
        path = match[4]
        if path not in repository.files:
            self.send_text(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        data, entry = repository.files[path], repository.entry(path)
        headers = {"X-Repo-Commit": repository.commit}
        if "lfs" not in entry:
            self.send_file(data, {**headers, "ETag": f'"{entry["oid"]}"'})
            return
        name = entry["lfs"]["oid"]
        self.hub.blobs[name] = data
        self.send_text(302, b"", {**headers, "Location": f"{self.hub.cdn_url}/{name}",
                                  "X-Linked-Etag": f'"{name}"', "X-Linked-Size": str(len(data))})

    def send_file(self, data, headers):
        first = 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            first = int(match[1])
        if first >= len(data) > 0:
            self.send_text(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **headers}
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        self.send_text(206 if first else 200, data[first:], headers)

    def send_text(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        for begin in range(0, len(body), self.hub.chunk_bytes):
            if self.hub.before_chunk:
                self.hub.before_chunk(self)
            self.wfile.write(body[begin:begin + self.hub.chunk_bytes])
            self.hub.sent_bytes += len(body[begin:begin + self.hub.chunk_bytes])

    # --- faults ---

    def begin(self, status, length, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def reset(self):
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


ANSWERS = {
    r"/api/(models|datasets)/([^/]+/[^/]+)/revision/(.+)": Handler.send_commit,
    r"/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)/?(.*)": Handler.send_tree,
    r"/api/(models|datasets)/([^/]+/[^/]+)/xet-read-token/(.+)": Handler.send_xet_token,
    r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)": Handler.send_resolved,
}


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients may disconnect during an answer


class Hub:
    def __init__(self):
        self.repositories = {}  # "org/name" or "datasets/org/name" -> Repository
        self.blobs = {}
        self.token = None  # the token that clients must send
        self.faults = {}
        self.requests = []
        self.page_size = 1000
        self.has_xet = False  # if true, the CDN also serves large files by Xet
        self.chunk_bytes = 1 << 16
        self.before_chunk = None
        self.sent_bytes = 0
        self.change_tree = lambda entries: entries
        self.servers = [self.serve("main"), self.serve("cdn")]
        self.url, self.cdn_url = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def serve(self, name):
        server = QuietServer(("127.0.0.1", 0), Handler)
        server.hub, server.name = self, name
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    def stop(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def fetched_paths(self, server=None):
        return [path for name, method, path, _ in self.requests
                if method == "GET" and (server is None or name == server)]
