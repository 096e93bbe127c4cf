"""Downloads files of a Hugging Face hub into the cache. fsdp-run starts Python with this text as an
argument. The library huggingface_hub 2 makes the requests. If Python lacks the library, it is
installed once, into a folder of the user's.

Each input line is a question and each output line its answer, as JSON objects. `ask` names a
function of QUESTIONS, and the other fields are its arguments. An answer comes within 0.1 s. It
always has `progress`. It has `answer` or `error` if the function has ended. The question {} asks
again about the function that was started last. At first this is start().

A download gets the name of its blob only after its hash was checked, so a kill at any time leaves
no wrong blob.
"""
import concurrent.futures
import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

VERSION = "2.4.0"  # installed if there is no 2.*
TRIES = 6  # in a row without a new byte, as in huggingface_hub
RETRIED = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses
LONGEST_WAIT_S = 300  # that a server may ask for; hubs limit requests for each 5 minutes
LARGEST_ANSWER_BYTES = 8 << 20  # a page of a list has about 1 MiB
LARGEST_LIST_BYTES = 32 << 20
SPARE_BYTES = 16 << 20  # of disk space, for links and listings
MOST_PAGES = 1000

lines = []  # texts to show to the user
wanted, done, parts = [], [], set()  # of the last get(): all files, complete files, growing parts
xet_hashes = {}  # by SHA-256 of the file


class Failed(Exception):
    """An error with a text for the user. `is_users` is true if a name or a setting of the user is
    wrong."""

    def __init__(self, text, is_users=False):
        super().__init__(text)
        self.is_users = is_users


# --- the library ---


def start():
    if "@" in os.environ.get("HF_ENDPOINT", ""):
        raise Failed("HF_ENDPOINT: holds a user's name or password; give HF_TOKEN instead", is_users=True)
    if not os.environ.get("HF_ENDPOINT", "").strip():
        os.environ.pop("HF_ENDPOINT", None)
    for name in ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        if os.environ.get(name):
            os.environ.setdefault("SSL_CERT_FILE", os.environ[name])
    os.environ.update(HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1")
    load_library()
    if constants.HF_HUB_OFFLINE:
        raise Failed("HF_HUB_OFFLINE: is set, so that nothing can be fetched; unset it", is_users=True)
    place = "HF_TOKEN" if os.environ.get("HF_TOKEN") else constants.HF_TOKEN_PATH
    try:
        is_plain = re.fullmatch("[!-~]*", huggingface_hub.get_token() or "")
    except OSError as error:
        raise Failed(f"{place}: the token cannot be read: {error.strerror}; HF_TOKEN_PATH names another file, HF_HOME "
                     "another folder", is_users=True) from error
    except ValueError:  # the token is not text
        is_plain = False
    if not is_plain:
        raise Failed(f"{place}: is not a token: it holds blanks or characters that are not ASCII", is_users=True)


def load_library():
    global constants, httpx2, huggingface_hub, utils, TEMPORARY
    if not any(each.version.startswith("2.") for each in metadata.distributions(name="huggingface_hub")):
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        kind = f"{sys.implementation.cache_tag}-{platform.machine()}"
        folder = Path(caches, "fsdp-run", f"huggingface_hub-{VERSION}-{kind}")
        if not folder.is_dir():
            install_library(folder)
        sys.path.insert(0, str(folder))
    import huggingface_hub
    import httpx2
    from huggingface_hub import constants, utils
    TEMPORARY = (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError)


def install_library(folder):
    package = f"huggingface_hub=={VERSION}"
    lines.append(f"installing {package} into {folder}, as {sys.executable} has no huggingface_hub 2")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            python = sys.executable
            if subprocess.run([python, "-I", "-m", "pip", "--version"], capture_output=True).returncode != 0:
                python = f"{work}/venv/bin/python"
                call(sys.executable, "-I", "-m", "venv", f"{work}/venv")
            call(python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:",
                 "--target", f"{work}/library", package)
            os.rename(f"{work}/library", folder)
    except OSError as error:
        if folder.is_dir():  # another fetch was faster
            return
        raise Failed(
            f"{package} cannot be installed into {folder}: {error}. Install it into a Python of your own (python3 -m venv "
            f"DIR && DIR/bin/pip install {package}), and let FSDP_PYTHON name DIR/bin/python. PIP_INDEX_URL names another "
            "index than PyPI, https_proxy a proxy, XDG_CACHE_HOME another folder than ~/.cache") from error


def call(*words):
    ended = subprocess.run(words, capture_output=True, text=True, errors="replace")
    if ended.returncode != 0:
        said = (ended.stderr.strip() or ended.stdout.strip()).split("\n")
        raise OSError(f"{words[3]} says: {' '.join(said[-3:])}")


# --- requests ---


@contextlib.contextmanager
def explained(name, page, place):
    """Turns errors of requests for `name`, and of files at `place`, into Failed."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        answer = error.response if isinstance(error, httpx2.HTTPStatusError) else None
        is_refused = answer is not None and answer.status_code in (401, 403) and is_of_hub(str(answer.url))
        problem = problem_of_answer(answer) if answer is not None else problem_of_connection(error)
        raise Failed(f"{name}: {problem}" + what_access_takes(page) * is_refused, is_users=is_refused) from error
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise Failed(f"the cache cannot be written: {error.filename or place}: {error.strerror or error}; " + (
            "what has come so far is kept, so make room and fetch again" if is_full else
            "HF_HOME or HF_HUB_CACHE name another folder")) from error


def problem_of_answer(answer):
    said = answer.headers.get("X-Error-Message", "")
    return (f"the server answered {answer.status_code}" + f": {said[:300]}" * bool(said) +
            f" ({TRIES} times)" * (answer.status_code in RETRIED))


def problem_of_connection(error):
    problem = str(error) or type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        problem = f"the server sent nothing for {constants.HF_HUB_DOWNLOAD_TIMEOUT} s"
    return (problem + f" ({TRIES} times)" * isinstance(error, TEMPORARY) + "; fetch on a host that reaches the internet, "
            "such as a login node, into a cache that this one sees (HF_HOME); https_proxy names a proxy, HF_ENDPOINT "
            f"another hub than {constants.ENDPOINT}, SSL_CERT_FILE certificates that are trusted")


def what_access_takes(page):
    token = ("the token of HF_TOKEN, or of the token file, was sent" if huggingface_hub.get_token() else
             "HF_TOKEN is not set, and there is no token file")
    return (f"; {token}. It may be private, or ask for its conditions to be agreed to at {page}, or not exist at all; a token "
            f"that may read it comes from {constants.ENDPOINT}/settings/tokens")


def is_of_hub(url):
    return url.startswith(f"{constants.ENDPOINT}/")


def page_of(repository):
    return f"{constants.ENDPOINT}/{'datasets/' * (repository['kind'] == 'datasets')}{repository['id']}"


def address(repository, path):
    return f"{constants.ENDPOINT}/api/{repository['kind']}/{repository['id']}/{path}"


def request(url, **headers):
    """Begins a GET. Its bytes come as the file has them: a compressed answer could be of any size."""
    return utils.get_session().stream("GET", url, headers={**utils.build_hf_headers(), "Accept-Encoding": "identity", **headers},
                                      timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT)


def until_it_succeeds(name, act, bytes_there=lambda: 0):
    """Returns act(number of failures). Repeats it after faults that pass, until TRIES in a row
    brought no new byte."""
    tries, there = 0, bytes_there()
    while True:
        try:
            return act(tries)
        except (*TEMPORARY, httpx2.HTTPStatusError) as error:
            tries = 1 if bytes_there() > there else tries + 1
            there = bytes_there()
            answer = error.response if isinstance(error, httpx2.HTTPStatusError) else None
            if tries == TRIES or answer is not None and answer.status_code not in RETRIED:
                raise
            time.sleep(asked_wait_s(name, answer) or min(2 ** (tries - 1), 8))


def asked_wait_s(name, answer):
    """Returns the time for which the server asks to wait, after it was shown. 0 if it asks for none."""
    headers = {} if answer is None else answer.headers
    limit = utils.parse_ratelimit_headers(headers)
    asked = headers.get("Retry-After", "") if limit is None or limit.remaining > 0 else str(limit.reset_in_seconds)
    if not re.fullmatch("[0-9]{1,9}", asked):
        return 0
    wait_s = int(asked) + 1  # the server's seconds are rounded
    problem = f"{name}: the server answered {answer.status_code}, and asks to wait for {asked} s, until " + time.strftime(
        "%Y-%m-%d %H:%M:%S", time.localtime(time.time() + wait_s))
    if int(asked) > LONGEST_WAIT_S:
        raise Failed(f"{problem}; fetch again then, as a fetch waits for {LONGEST_WAIT_S} s at most; what has come is kept")
    lines.append(problem)
    return wait_s


def text_of(response):
    """Returns the answer's text. It is empty if the answer is larger than a hub's, or compressed."""
    text = b""
    if response.headers.get("Content-Encoding", "identity") == "identity":
        for block in response.iter_raw():
            text += block
            if len(text) > LARGEST_ANSWER_BYTES:
                return b""
    return text


def api(repository, url, read):
    """Returns read(answer, URL of the next page), or None if the hub answers 404."""
    def ask(_):
        with request(url) as response:
            response.raise_for_status()
            return text_of(response), response.links.get("next", {}).get("url", "")

    with explained(repository["text"], page_of(repository), url):
        try:
            text, following = until_it_succeeds(repository["text"], ask)
        except httpx2.HTTPStatusError as error:
            if error.response.status_code == 404:
                return None
            raise
    try:
        return read(json.loads(text), following)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Failed(f"{constants.ENDPOINT} answers {url} with something else than a hub would; HF_ENDPOINT may name another "
                     "server, or a proxy or a log-in page stand before it") from error


def commit(repository, revision):
    def read(answer, _):
        return re.fullmatch("[0-9a-f]{40}", answer["sha"])[0]
    sha = api(repository, address(repository, f"revision/{quote(revision, safe='')}"), read)
    if sha is None:
        raise Failed(f"{repository['text']} is not on {constants.ENDPOINT}: it has no such repository, or no revision "
                     f"'{revision}' of it", is_users=True)
    return sha


def list_files(repository, commit, folder, is_recursive):
    """The files in a folder, as the hub lists them. There are none if the hub has no such folder."""
    found, size_bytes = [], 0

    def read(answer, following):
        nonlocal size_bytes
        for each in answer:
            if each["type"] == "file":
                found.append({key: each[key] for key in ("path", "size", "oid", "lfs") if key in each})
                # Raises for NaN or broken Unicode.
                size_bytes += len(json.dumps(found[-1], ensure_ascii=False, allow_nan=False).encode())
                if each.get("lfs") and isinstance(each.get("xetHash"), str):
                    xet_hashes[each["lfs"]["oid"]] = each["xetHash"]
        if size_bytes > LARGEST_LIST_BYTES:
            raise ValueError("the list has more files than any repository")
        if following and not is_of_hub(following):
            raise ValueError("the list goes on at another server")
        return following

    url = address(repository, f"tree/{commit}" + f"/{quote(folder)}" * bool(folder) + "?recursive=true" * is_recursive)
    for page in range(MOST_PAGES):
        url = api(repository, url, read)
        if url is None and page > 0:
            raise Failed(f"{constants.ENDPOINT}, for {repository['text']}, has a list of files that ends in a 404; try again")
        if not url:
            return found
    raise Failed(f"{constants.ENDPOINT}, for {repository['text']}, has a list of files without an end")


# --- blobs ---


def get(cache, files):
    """Downloads the blobs that are missing or incomplete."""
    by_blob = {each["blob"]: each for each in files if not is_whole(each)}
    wanted[:] = sorted(by_blob.values(), key=lambda each: -each["size"])  # so no large one starts last
    done.clear()
    needed = sum(each["size"] - size_of(part_of(each)) for each in wanted)
    with explained("", "", cache):
        free = shutil.disk_usage(next(each for each in (Path(cache), *Path(cache).parents) if each.exists())).free
    if needed and free < needed + SPARE_BYTES:
        raise Failed(f"the cache {cache} has {free / 2**30:.2f} GiB free, and {needed / 2**30:.2f} GiB are to be fetched; "
                     "make room, or name another folder with HF_HOME or HF_HUB_CACHE")
    side_by_side = concurrent.futures.ThreadPoolExecutor(4)
    for ended in concurrent.futures.as_completed([side_by_side.submit(get_blob, each) for each in wanted]):
        ended.result()  # raises the first failure; fsdp-run then ends this process


def get_blob(file):
    part = part_of(file)
    with explained(name_of(file), page_of(file["repository"]), part):
        os.makedirs(os.path.dirname(part), exist_ok=True)
        with locked(file["lock"]):
            parts.add(part)
            while not is_whole(file) and not complete(file, part):
                pass
    parts.discard(part)
    done.append(file)
    lines.append(name_of(file))


def complete(file, part):
    """Downloads the missing bytes. Returns False if the earlier bytes were wrong. The part is then
    removed."""
    begin = size_of(part)
    if begin == 0 or begin > file["size"]:
        begin = remove(part)
        open(part, "xb").close()
    until_it_succeeds(name_of(file), lambda tries: get_rest(file, part, may_use_xet=tries == 0), lambda: size_of(part))
    digest = hashlib.sha256() if file["is_sha256"] else hashlib.sha1(b"blob %d\0" % file["size"])
    with open(part, "rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
        os.fsync(content.fileno())
    if digest.hexdigest() == file["hash"]:
        os.replace(part, file["blob"])
        return True
    remove(part)
    if begin > 0:
        return False
    kind = "sha256" if file["is_sha256"] else "git's sha1"
    raise Failed(f"{name_of(file)}: the server sent wrong bytes: their {kind} is {digest.hexdigest()}, it lists "
                 f"{file['hash']}; they are removed")


def get_rest(file, part, may_use_xet):
    repository, size, begin = file["repository"], file["size"], size_of(part)
    if begin == size:
        return
    xet_hash = xet_hashes.get(file["hash"])
    if xet_hash and may_use_xet and (not begin or size > constants.MAX_HTTP_DOWNLOAD_SIZE):
        from huggingface_hub import file_download
        if file_download.is_xet_available():
            route = address(repository, f"xet-read-token/{file['commit']}")
            try:
                file_download.xet_get(incomplete_path=Path(part), headers=utils.build_hf_headers(), expected_size=size,
                                      xet_file_data=utils.XetFileData(xet_hash, route))
            except Exception as error:  # the next try goes without Xet
                raise httpx2.ReadError(f"Xet: {error}") from error
            return check_end(file, part)
    url = f"{page_of(repository)}/resolve/{file['commit']}/{quote(file['path'])}"
    with request(url, **({"Range": f"bytes={begin}-"} if begin else {})) as response:
        if response.status_code == 416:  # the server's file is shorter than the part
            remove(part)
            raise httpx2.ReadError("the server has fewer bytes than it was asked for")
        response.raise_for_status()
        check_begin(file, part, begin, response)
        with open(part, "ab") as out:
            for block in response.iter_raw():
                if out.tell() + len(block) > size:
                    remove(part)
                    raise Failed(f"{name_of(file)}: the server sends more than the {size} bytes that it lists")
                out.write(block)
    check_end(file, part)


def check_end(file, part):
    if size_of(part) < file["size"]:
        raise httpx2.ReadError(f"the server ended after {size_of(part)} of {file['size']} bytes")


def check_begin(file, part, begin, response):
    """Raises if the response cannot be the rest of the file. Removes the part if the response is
    the whole file."""
    size = str(file["size"])
    if response.status_code == 206:
        if not re.fullmatch(rf"bytes {begin}-\d+/{size}", response.headers.get("Content-Range", "")):
            remove(part)
            raise httpx2.ReadError("the server sent another part of the file than it was asked for")
        return
    length = response.headers.get("Content-Length", size)
    if length != size:
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        raise Failed(f"{name_of(file)}: the server sends {'a web page' if is_page else 'a file'} of {length} bytes, but lists "
                     f"the file with {size}" + "; a proxy or a log-in page may stand before it" * is_page)
    if begin:
        remove(part)


def publish(links, texts):
    """Makes links [place, blob], then files [place, text]. Each appears whole."""
    for place, blob in links:
        with explained("", "", place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            folder = os.path.realpath(os.path.dirname(blob))  # either folder may be a link
            target = os.path.relpath(folder, os.path.realpath(os.path.dirname(place)))
            put(place, lambda new: os.symlink(os.path.join(target, os.path.basename(blob)), new))
    for place, text in texts:
        with explained("", "", place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            put(place, lambda new: Path(new).write_text(text, encoding="utf-8"))


def put(place, make):
    new = os.path.join(os.path.dirname(place), f".fsdp-run-{secrets.token_hex(8)}")
    try:
        make(new)
        os.replace(new, place)
    finally:
        remove(new)


def locked(lock):
    os.makedirs(os.path.dirname(lock), exist_ok=True)
    return utils.WeakFileLock(lock)


def name_of(file):
    return f"{file['repository']['text']}/{file['path']}"


def part_of(file):
    return file["blob"] + ".incomplete"


def size_of(place):
    """Returns 0 if `place` is no regular file."""
    try:
        found = os.lstat(place)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def is_whole(file):
    return os.path.isfile(file["blob"]) and os.path.getsize(file["blob"]) == file["size"]


def remove(place):
    Path(place).unlink(missing_ok=True)
    return 0


# --- questions ---

QUESTIONS = {"commit": commit, "list": list_files, "get": get, "publish": publish}


def answer_of(function, arguments):
    try:
        return {"answer": function(**arguments)}
    except Failed as error:
        return {"error": str(error), "is_users": error.is_users}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "is_users": False}


def progress():
    done_bytes = sum(each["size"] for each in done) + sum(map(size_of, tuple(parts)))
    return {"done_files": len(done), "all_files": len(wanted), "done_bytes": done_bytes,
            "all_bytes": sum(each["size"] for each in wanted), "lines": [lines.pop(0) for _ in range(len(lines))]}


def main():
    output, sys.stdout = sys.stdout.buffer, sys.stderr  # no library's print() among the answers
    worker = concurrent.futures.ThreadPoolExecutor(1)
    running = worker.submit(answer_of, start, {})
    for line in sys.stdin.buffer:
        question = json.loads(line)
        if question:
            running = worker.submit(answer_of, QUESTIONS[question.pop("ask")], question)
        concurrent.futures.wait([running], 0.1)
        answer = running.result() if running.done() else {}
        text = json.dumps({**answer, "progress": progress()}, ensure_ascii=False)
        output.write(text.encode(errors="replace") + b"\n")
        output.flush()
    os._exit(0)  # does not wait for the threads


main()
