"""A hub that refuses, fails, hangs or lies: each is a clear error or is got over, and nothing wrong is left."""
import os
import shutil
import subprocess
import threading

import pytest
from conftest import MODEL, interrupt, model_files
from hub import Repository

WANTED = set(model_files())
SHARD = "model-00001-of-00002.safetensors"


def large_model(workplace, large_bytes=3_000_000):
    """A model whose one large file comes in many pieces."""
    files = {"config.json": model_files()["config.json"], "model.safetensors": os.urandom(large_bytes)}
    workplace.hub.repositories[MODEL] = Repository(files)
    return files


def hash_of_large_file(workplace):
    [entry] = [entry for entry in workplace.hub.repositories[MODEL].tree("", False) if "lfs" in entry]
    return entry["lfs"]["oid"]


def place_of_part(workplace):
    """Where the part of the large file that has come lies. Small files may have parts beside it."""
    return workplace.repository() / "blobs" / f"{hash_of_large_file(workplace)}.incomplete"


def cdn_ranges(workplace):
    return [headers.get("Range") for server, _, _, headers in workplace.hub.requests if server == "cdn"]


def first(count, answer):
    """A fault that answers the first `count` requests."""
    left = [count]

    def fault(request):
        if left[0] == 0:
            return False
        left[0] -= 1
        answer(request)
        return True
    return fault


def answering(status, body=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: request.send_text(status, body, named)


def refused(workplace, *texts, code, **environment):
    """A fetch ends with this code and these texts, and leaves nothing that a run would take."""
    ended = workplace.fetch(**environment)
    assert ended.returncode == code, ended.stderr
    for text in texts:
        assert text in ended.stderr, ended.stderr
    workplace.check_nothing_wrong()
    assert "is not in" in workplace.run(**environment).stderr
    return ended


# --- refusals ---


def test_a_repository_that_is_not_there(workplace):
    workplace.write("org/absent")
    refused(workplace, f"{workplace.experiment}:2:", "'model.source': org/absent: the server answered 401",
            "HF_TOKEN is not set, and there is no token file", f"{workplace.hub.url}/org/absent", code=2)


def test_a_gated_repository(workplace):
    workplace.hub.token = "hf_right"
    refused(workplace, "the server answered 403: Access to it is restricted", "HF_TOKEN is not set",
            f"agreed to at {workplace.hub.url}/{MODEL}", f"{workplace.hub.url}/settings/tokens", code=2)
    ended = refused(workplace, "the token of HF_TOKEN, or of the token file, was sent", code=2, HF_TOKEN="hf_wrong")
    assert "hf_wrong" not in ended.stderr + ended.stdout


def test_a_repository_whose_files_are_gated(workplace):
    """The hub lists the files of such a repository to all."""
    workplace.hub.faults["main"] = lambda request: "/resolve/" in request.path and not answering(
        403, b"{}", X_Error_Message="Access to it is restricted")(request)
    refused(workplace, f"{MODEL}/model.safetensors.index.json: the server answered 403: Access to it is restricted",
            f"agreed to at {workplace.hub.url}/{MODEL}, or", code=2)


def test_a_revision_or_file_that_is_not_there(workplace):
    workplace.write(f"{MODEL}@v9")
    refused(workplace, f"{MODEL}@v9 is not on {workplace.hub.url}", "no revision 'v9'", code=2)
    workplace.write(None, **{"data.train": "hf://datasets/org/games/data/trane.csv"})
    refused(workplace, "'data.train': datasets/org/games has no file 'data/trane.csv'",
            "did you mean 'data/train.csv'?", code=2)


@pytest.mark.parametrize("absent, text", [("config.json", "has no config.json"),
                                          ("model.safetensors.index.json", "has no weights that can be read"),
                                          (SHARD, f"names the file '{SHARD}', which it does not have")])
def test_a_repository_that_lacks_something(workplace, absent, text):
    files = model_files()
    del files[absent]
    workplace.hub.repositories[MODEL] = Repository(files)
    refused(workplace, text, code=2)


def test_nothing_is_asked_offline(workplace):
    ended = workplace.fetch(HF_HUB_OFFLINE="1")
    assert ended.returncode == 2 and "HF_HUB_OFFLINE: is set" in ended.stderr
    assert workplace.hub.requests == []


@pytest.mark.parametrize("endpoint, text", [
    ("ftp://x", "an unsupported protocol 'ftp://'."), ("http://me:secret@127.0.0.1:1", "holds a user's name"),
    ("http://127.0.0.1:1", "(6 times); fetch on a host that reaches the internet")])
def test_an_endpoint_that_is_none(workplace, endpoint, text):
    ended = workplace.fetch(HF_ENDPOINT=endpoint)
    assert ended.returncode != 0 and text in ended.stderr, ended.stderr
    assert "secret" not in ended.stderr


# --- faults that pass ---


@pytest.mark.parametrize("server", ["main", "cdn"])
def test_what_passes_is_got_over(workplace, server):
    passing = iter([answering(500), answering(429, Retry_After="1"), answering(503, b"<html>"), lambda request: request.reset()])
    workplace.hub.faults[server] = first(4, lambda request: next(passing)(request))
    ended = workplace.fetch()
    assert ended.returncode == 0, ended.stderr
    workplace.check_snapshot(WANTED)
    assert next(passing, None) is None


def test_a_server_that_goes_on_failing(workplace):
    workplace.hub.faults["main"] = first(-1, answering(500))
    refused(workplace, f"{MODEL}: the server answered 500 (6 times)", code=1)
    workplace.hub.faults = {"cdn": first(-1, answering(502))}
    refused(workplace, f"{MODEL}/model-0000", "the server answered 502 (6 times)", code=1)


def test_a_server_that_hangs(workplace):
    over = threading.Event()
    workplace.hub.faults["cdn"] = lambda request: over.wait()
    ended = workplace.fetch(HF_HUB_DOWNLOAD_TIMEOUT="1")
    over.set()
    assert ended.returncode == 1 and "the server sent nothing for 1 s (6 times)" in ended.stderr, ended.stderr


def close(request):
    request.wfile.flush()
    request.close_connection = True


def part_of_file(request, sent_bytes, end):
    data = request.hub.blobs[request.path.strip("/")]
    request.begin(200, len(data))
    request.wfile.write(data[:sent_bytes])
    end(request)


def test_a_connection_that_breaks_in_the_middle_is_taken_up(workplace):
    files = large_model(workplace)
    begun = 1_000_000
    workplace.hub.faults["cdn"] = first(1, lambda request: part_of_file(request, begun, close))
    ended = workplace.fetch()
    assert ended.returncode == 0, ended.stderr
    workplace.check_snapshot(files)
    assert cdn_ranges(workplace) == [None, f"bytes={begun}-"]


def leave_part(workplace, data):
    """Leaves this of the large file, as an earlier fetch would."""
    place = place_of_part(workplace)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return place


def test_what_an_earlier_fetch_left_is_taken_up(workplace):
    files = large_model(workplace)
    for left, ranges in ((files["model.safetensors"][:2_000_000], ["bytes=2000000-"]),
                         (files["model.safetensors"], []),
                         (b"wrong" * 1000, ["bytes=5000-", None]),
                         (b"longer" * 1_000_000, [None])):
        shutil.rmtree(workplace.repository(), ignore_errors=True)
        leave_part(workplace, left)
        workplace.hub.requests.clear()
        ended = workplace.fetch()
        assert ended.returncode == 0, ended.stderr
        workplace.check_snapshot(files)
        assert cdn_ranges(workplace) == ranges


def test_a_server_that_knows_no_ranges(workplace):
    files = large_model(workplace)

    def whole(request):
        del request.headers["Range"]
        return False

    workplace.hub.faults["cdn"] = whole
    leave_part(workplace, files["model.safetensors"][:2_000_000])
    assert workplace.fetch().returncode == 0
    workplace.check_snapshot(files)


@pytest.mark.parametrize("make", [os.mkfifo, lambda place: place.symlink_to("/dev/full"), lambda place: place.touch()],
                         ids=["pipe", "link", "empty"])
def test_what_is_no_part_of_a_file_is_replaced(workplace, make):
    files = large_model(workplace)
    place = leave_part(workplace, b"")
    place.unlink()
    make(place)
    assert workplace.fetch().returncode == 0
    workplace.check_snapshot(files)


# --- Xet ---


def test_large_files_come_by_xet(workplace):
    files = large_model(workplace)
    workplace.hub.has_xet = True
    ended = workplace.fetch(FETCH_TEST_XET=workplace.hub.cdn_url)
    assert ended.returncode == 0, ended.stderr
    workplace.check_snapshot(files)
    [path] = workplace.hub.fetched_paths("cdn")
    assert path.strip("/") == hash_of_large_file(workplace)[::-1]
    assert not any("/resolve/" in path and "safetensors" in path for path in workplace.hub.fetched_paths())


@pytest.mark.parametrize("begun, ranges", [(0, [None, None]), (1_000_000, [None, "bytes=1000000-"])])
def test_what_xet_does_not_end_comes_without_it(workplace, begun, ranges):
    files = large_model(workplace)
    workplace.hub.has_xet = True
    of_xet = hash_of_large_file(workplace)[::-1]
    workplace.hub.faults["cdn"] = lambda request: of_xet in request.path and not part_of_file(request, begun, close)
    ended = workplace.fetch(FETCH_TEST_XET=workplace.hub.cdn_url)
    assert ended.returncode == 0, ended.stderr
    workplace.check_snapshot(files)
    assert cdn_ranges(workplace) == ranges


def test_wrong_bytes_of_xet(workplace):
    large_model(workplace)
    workplace.hub.has_xet = True
    workplace.hub.faults["cdn"] = first(-1, wrong_bytes)
    refused(workplace, "model.safetensors: the server sent wrong bytes", code=1, FETCH_TEST_XET=workplace.hub.cdn_url)
    assert not place_of_part(workplace).exists()


# --- lies ---


def wrong_bytes(request):
    data = request.hub.blobs[request.path.strip("/")]
    request.send_text(200, bytes([data[0] ^ 1]) + data[1:], {})


def test_wrong_bytes(workplace):
    files = large_model(workplace)
    workplace.hub.faults["cdn"] = first(-1, wrong_bytes)
    refused(workplace, f"{MODEL}/model.safetensors: the server sent wrong bytes: their sha256 is", "they are removed",
            code=1)
    assert not place_of_part(workplace).exists()
    workplace.hub.faults = {}
    assert workplace.fetch().returncode == 0
    workplace.check_snapshot(files)


def test_wrong_bytes_of_a_small_file(workplace):
    right = workplace.hub.repositories[MODEL].files["generation_config.json"]

    def fault(request):
        if not request.path.endswith("/generation_config.json"):
            return False
        request.send_text(200, b"[" + right[1:], {})
        return True

    workplace.hub.faults["main"] = fault
    refused(workplace, "generation_config.json: the server sent wrong bytes: their git's sha1 is", code=1)


def test_another_part_than_was_asked_for(workplace):
    def other_range(request):
        data = request.hub.blobs[request.path.strip("/")]
        if request.headers.get("Range"):
            request.send_text(206, data[10:], {"Content-Range": f"bytes 10-{len(data) - 1}/{len(data)}"})
        return "Range" in request.headers

    files = large_model(workplace)
    leave_part(workplace, files["model.safetensors"][:2_000_000])
    workplace.hub.faults["cdn"] = other_range
    assert workplace.fetch().returncode == 0  # without a part
    workplace.check_snapshot(files)


def too_many_bytes(request):
    data = request.hub.blobs[request.path.strip("/")]
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    body = data + b"more"
    request.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))


def too_few_bytes(request):
    """An answer without its length that ends early, and has nothing more if it is asked again."""
    request.send_response(206 if request.headers.get("Range") else 200)
    request.send_header("Transfer-Encoding", "chunked")
    if request.headers.get("Range"):
        request.send_header("Content-Range", "bytes 4-2999999/3000000")
    request.end_headers()
    request.wfile.write(b"0\r\n\r\n" if request.headers.get("Range") else b"4\r\nfour\r\n0\r\n\r\n")


LIES = {
    "too few bytes": (too_few_bytes, "the server ended after 4 of 3000000 bytes (6 times)"),
    "log-in page": (answering(200, b"<html>Log in</html>", Content_Type="text/html; charset=utf-8"),
                    "the server sends a web page of 19 bytes"),
    "short": (answering(200, b"short"), "the server sends a file of 5 bytes, but lists the file with 3000000"),
    "too many bytes": (too_many_bytes, "sends more than the 3000000 bytes that it lists"),
    "redirect loop": (lambda request: request.send_text(302, b"", {"Location": request.path}),
                      "maximum allowed redirects"),
    "file:": (answering(302, Location="file:///etc/passwd"), "rotocol"),
    "gone": (answering(410), "the server answered 410"),
}


def test_a_server_that_lies(workplace):
    large_model(workplace)
    for answer, text in LIES.values():
        workplace.hub.faults["cdn"] = first(-1, answer)
        refused(workplace, text, code=1)


def test_a_page_instead_of_the_hubs_answers(workplace):
    workplace.hub.faults["main"] = first(-1, answering(200, b"<html>Log in</html>", Content_Type="text/html"))
    refused(workplace, "something else than a hub would", "log-in page", code=1)


@pytest.mark.parametrize("change, text", [
    ({"path": "../../evil"}, "lists the file name '../../evil'"), ({"path": "/etc/evil"}, "'/etc/evil'"),
    ({"path": "a/../evil"}, "leads out"), ({"path": "a\u001b[2Jb"}, "\\x1b[2Jb"), ({"path": ""}, "leads out"),
    ({"path": "\ud800"}, "than a hub would"), ({"size": float("inf")}, "than a hub would"), ({"size": -1}, "with a size that no file has"),
    ({"size": 1 << 60}, "with a size that no file has"), ({"size": "5"}, "with a size"), ({"size": 1.5e300}, "with a size"),
    ({"oid": "../x", "lfs": None}, "without a hash"), ({"lfs": {"oid": "../../x"}}, "without a hash"),
    ({"lfs": {"oid": 5}}, "another form"), ({"lfs": 5, "xetHash": "5"}, "than a hub would"), ({"type": 5, "path": []}, "")])
def test_a_list_that_wants_harm(workplace, change, text):
    workplace.hub.change_tree = lambda entries: [{**entries[0], **change}, *entries[1:]]
    ended = workplace.fetch()
    assert ended.returncode == (1 if text else 0) and text in ended.stderr, ended.stderr
    assert not (workplace.folder / "evil").exists()


def test_an_answer_that_wants_harm(workplace):
    for answer in (b"[" * 100_000, b'{"sha": "../../x"}', b'{"sha": 5}', b"[]", b"", b'{"sha": "' + b"a" * 30_000_000 + b'"}'):
        workplace.hub.faults["main"] = first(-1, answering(200, answer))
        refused(workplace, "something else than a hub would", code=1)


def test_an_index_that_wants_harm(workplace):
    files = {**model_files(), "model.safetensors.index.json": b'{"weight_map": {"a": "../../../evil"}}'}
    workplace.hub.repositories[MODEL] = Repository(files)
    refused(workplace, "names the file '../../../evil', which it does not have", code=2)


@pytest.mark.parametrize("following, text", [
    ("{hub.url}{path}", "has a list of files without an end"), ("{hub.cdn_url}/", "something else than a hub would")])
def test_a_list_that_goes_on_for_ever_or_elsewhere(workplace, following, text):
    def fault(request):
        if "/tree/" not in request.path:
            return False
        place = following.format(hub=workplace.hub, path=request.path)
        request.send_text(200, b"[]", {"Link": f'<{place}>; rel="next"'})
        return True

    workplace.hub.faults["main"] = fault
    refused(workplace, text, code=1)
    assert workplace.hub.fetched_paths("cdn") == []


# --- the token ---


@pytest.mark.parametrize("place", ["HF_TOKEN", "token file", "HF_TOKEN_PATH"])
def test_the_token_goes_to_the_hub_alone_and_nowhere_else(workplace, place):
    secret = "hf_verySecretToken"
    workplace.hub.token = secret
    variables = {}
    if place == "HF_TOKEN":
        variables["HF_TOKEN"] = f" {secret}\n"
    elif place == "HF_TOKEN_PATH":
        variables["HF_TOKEN_PATH"] = str(workplace.folder / "secret")
        (workplace.folder / "secret").write_text(secret)
    else:
        workplace.home.mkdir()
        (workplace.home / "token").write_text(f"{secret}\n")
    ended = workplace.fetch(**variables)
    assert ended.returncode == 0, ended.stderr
    assert workplace.run(**variables).returncode == 0
    servers = {server: [headers for name, _, _, headers in workplace.hub.requests if name == server]
               for server in ("main", "cdn")}
    assert all(headers["Authorization"] == f"Bearer {secret}" for headers in servers["main"])
    assert servers["cdn"] and not any(secret in str(headers) for headers in servers["cdn"])
    assert secret not in ended.stdout + ended.stderr
    holding = subprocess.run(["grep", "-rl", secret, "."], cwd=workplace.folder, capture_output=True, text=True)
    own = {"HF_TOKEN": "", "token file": "./hf/token\n", "HF_TOKEN_PATH": "./secret\n"}[place]
    assert holding.stdout == own


def test_a_token_that_would_be_another_header(workplace):
    ended = workplace.fetch(HF_TOKEN="a\r\nX-Evil: 1 2")
    assert ended.returncode == 2 and "HF_TOKEN: is not a token" in ended.stderr
    assert "X-Evil" not in ended.stderr and workplace.hub.requests == []


@pytest.mark.parametrize("content, text", [(b"two words", "is not a token"), (b"\xff\xfe", "is not a token"),
                                           (None, "the token cannot be read: Is a directory; HF_TOKEN_PATH names")])
def test_a_token_file_that_holds_none(workplace, content, text):
    place = workplace.folder / "secret"
    place.mkdir() if content is None else place.write_bytes(content)
    ended = workplace.fetch(HF_TOKEN_PATH=str(place))
    assert ended.returncode == 2 and f"{place}: {text}" in ended.stderr, ended.stderr
    assert "words" not in ended.stderr and workplace.hub.requests == []


# --- the cache ---


def test_a_cache_that_cannot_be_written(workplace):
    workplace.home.mkdir()
    workplace.cache.write_text("a file")
    ended = workplace.fetch()
    assert ended.returncode == 1 and f"the cache cannot be written: {workplace.cache}" in ended.stderr, ended.stderr
    assert "HF_HOME or HF_HUB_CACHE name another folder" in ended.stderr


def test_names_that_are_written_under_cannot_be_known_before(workplace):
    """They were the process's number, so that a folder of such a name ended the fetch."""
    commit = workplace.hub.repositories[MODEL].commit
    folders = [workplace.repository() / folder for folder in ("refs", f"snapshots/{commit}", f"listings/{commit}")]
    plant = 'for folder in "$@"; do [ "$folder" = -- ] && break; mkdir -p "$folder/.tmp-$$/full"; shift; done; shift'
    ended = workplace.call("fetch", workplace.experiment,
                           prefix=["sh", "-ec", f'{plant}; exec "$@"', "-", *map(str, folders), "--"])
    assert ended.returncode == 0, ended.stderr
    workplace.check_snapshot(WANTED)
    for folder in folders:
        assert not list(folder.glob(".fsdp-run-*"))


def test_a_cache_that_lacks_nothing_need_not_be_written(workplace):
    workplace.fetch()
    before = {path: path.lstat().st_mtime_ns for path in workplace.home.rglob("*")}
    assert workplace.fetch().returncode == 0
    assert before == {path: path.lstat().st_mtime_ns for path in workplace.home.rglob("*")}


def test_a_file_that_is_larger_than_the_disk(workplace):
    large = {"size": 1 << 49, "lfs": {"oid": "a" * 64}}
    workplace.hub.change_tree = lambda entries: [
        {**entry, **large} if entry["path"] == SHARD else entry for entry in entries]
    refused(workplace, "free, and 524288.00 GiB are to be fetched", code=1)
    assert workplace.hub.fetched_paths("cdn") == []


def test_a_disk_that_is_full_in_the_middle(workplace):
    files = large_model(workplace)
    ended = workplace.call("fetch", workplace.experiment, prefix=("prlimit", "--fsize=1000000"))
    assert ended.returncode == 1 and "the cache cannot be written" in ended.stderr, ended.stderr
    assert place_of_part(workplace).stat().st_size == 1_000_000
    workplace.check_nothing_wrong()
    workplace.hub.requests.clear()
    assert workplace.fetch().returncode == 0
    workplace.check_snapshot(files)
    assert cdn_ranges(workplace) == ["bytes=1000000-"]


# --- several, and none to the end ---


def test_two_at_once(workplace):
    files = large_model(workplace)
    both = threading.Barrier(2, timeout=60)

    def held_until_both_have_asked(request):
        if "/revision/" in request.path:
            both.wait()

    workplace.hub.faults["main"] = held_until_both_have_asked
    fetches = [workplace.start_fetch() for _ in range(2)]
    for process in fetches:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    workplace.check_snapshot(files)
    assert len(workplace.hub.fetched_paths("cdn")) == 1


@pytest.mark.parametrize("stage", ["/revision/", "/tree/", "/resolve/", "cdn"])
def test_ctrl_c_ends_it_at_once_and_keeps_what_has_come(workplace, stage):
    files = large_model(workplace)
    reached, over = threading.Event(), threading.Event()

    def hang(request):
        if stage in request.path or request.server.name == stage:
            if stage == "cdn":
                part_of_file(request, 1_000_000, lambda request: request.wfile.flush())
            reached.set()
            over.wait()
            return True
        return False

    workplace.hub.faults = {"main": hang, "cdn": hang}
    process = workplace.start_fetch(HF_HUB_DOWNLOAD_TIMEOUT="100")
    assert reached.wait(60)
    interrupt(process)
    _, errors = process.communicate(timeout=60)  # the server sends nothing more
    over.set()
    assert process.returncode == 130 and "continues from there" in errors, errors
    workplace.check_nothing_wrong()
    workplace.hub.faults = {}
    assert workplace.fetch().returncode == 0
    workplace.check_snapshot(files)
