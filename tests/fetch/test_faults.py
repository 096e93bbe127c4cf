"""If a hub refuses, fails, hangs or lies, a fetch recovers or ends with a clear error. It leaves no
wrong file."""
import gzip
import json
import os
import shutil
import threading
import time

import pytest
from conftest import MODEL, model_files
from faults import (
    SHARD,
    WANTED,
    answering,
    cdn_ranges,
    first,
    hash_of_large_file,
    large_model,
    part_of_file,
    place_of_part,
    refused,
    to,
)
from hub import Repository


# --- refusals ---


def test_a_gated_repository(workplace):
    workplace.hub.token = "hf_right"
    refused(workplace, "the server answered 403: Access to it is restricted", "HF_TOKEN is not set",
            f"agreed to at {workplace.hub.url}/{MODEL}", f"{workplace.hub.url}/settings/tokens", code=2)
    ended = refused(workplace, "the token of HF_TOKEN, or of the token file, was sent", code=2, HF_TOKEN="hf_wrong")
    assert "hf_wrong" not in ended.stderr + ended.stdout


def test_a_repository_whose_files_are_gated(workplace):
    """The hub shows the list of files to everyone, but not the files."""
    workplace.hub.faults["main"] = to("/resolve/", answering(
        403, b"{}", X_Error_Message="Access to it is restricted"))
    refused(workplace, f"{MODEL}/model.safetensors.index.json: the server answered 403: Access to it is restricted",
            f"agreed to at {workplace.hub.url}/{MODEL}, or", code=2)


@pytest.mark.parametrize("source, train, texts", [
    ("org/absent", None, ("{experiment}:2:", "'model.source': org/absent: the server answered 401",
                          "HF_TOKEN is not set, and there is no token file", "{hub.url}/org/absent")),
    (f"{MODEL}@v9", None, (f"{MODEL}@v9 is not on {{hub.url}}", "no revision 'v9'")),
    (None, "hf://datasets/org/games/data/trane.csv", (
        "'data.train': datasets/org/games has no file 'data/trane.csv'", "did you mean 'data/train.csv'?"))])
def test_a_repository_revision_or_file_that_is_not_there(workplace, source, train, texts):
    workplace.write(source, **{"data.train": train})
    named = {"experiment": workplace.experiment, "hub": workplace.hub}
    refused(workplace, *(text.format(**named) for text in texts), code=2)


@pytest.mark.parametrize("absent, text", [("config.json", "has no config.json"),
                                          ("model.safetensors.index.json", "has no weights that can be read"),
                                          (SHARD, f"names the file '{SHARD}', which it does not have")])
def test_a_repository_that_lacks_something(workplace, absent, text):
    files = model_files()
    del files[absent]
    workplace.hub.repositories[MODEL] = Repository(files)
    refused(workplace, text, code=2)


def test_nothing_is_asked_offline(workplace):
    ended = workplace.fetch(HF_HUB_OFFLINE="1", status=2)
    assert "HF_HUB_OFFLINE: is set" in ended.stderr
    assert workplace.hub.requests == []


@pytest.mark.parametrize("endpoint, text", [
    ("ftp://x", "an unsupported protocol 'ftp://'."), ("http://me:secret@127.0.0.1:1", "holds a user's name"),
    ("http://127.0.0.1:1", "(6 times); fetch on a host that reaches the internet")])
def test_an_endpoint_that_is_none(workplace, endpoint, text):
    ended = workplace.fetch(status=None, HF_ENDPOINT=endpoint)
    assert ended.returncode != 0 and text in ended.stderr, ended.stderr
    assert "secret" not in ended.stderr


# --- temporary faults ---


@pytest.mark.parametrize("server", ["main", "cdn"])
def test_what_passes_is_got_over(workplace, server):
    passing = iter([answering(500), answering(429, Retry_After="1"), answering(503, b"<html>"), lambda request: request.reset()])
    workplace.hub.faults[server] = first(4, lambda request: next(passing)(request))
    workplace.fetch_whole(WANTED)
    assert next(passing, None) is None


def test_a_server_that_goes_on_failing(workplace):
    workplace.hub.faults["main"] = first(-1, answering(500))
    refused(workplace, f"{MODEL}: the server answered 500 (6 times)", code=1)
    workplace.hub.faults = {"cdn": first(-1, answering(502))}
    refused(workplace, f"{MODEL}/model-0000", "the server answered 502 (6 times)", code=1)


@pytest.mark.parametrize("server", ["main", "cdn"])
@pytest.mark.parametrize("asks", [lambda s: {"Retry_After": f"{s}"},
                                  lambda s: {"RateLimit": f'"api";r=0;t={s}', "Retry_After": "9999"}])
def test_a_fetch_waited_without_a_word_as_long_as_a_server_said(workplace, server, asks):
    large_model(workplace)
    workplace.hub.faults[server] = first(1, answering(429, **asks(42)))
    assert f"the server answered 429, and asks to wait for 42 s, until {time.strftime('%Y')}" in workplace.fetch().stderr
    shutil.rmtree(workplace.home)
    workplace.hub.faults[server] = first(-1, answering(429, **asks(9998)))
    refused(workplace, "asks to wait for 9998 s, until", "fetch again then, as a fetch waits for 300 s at most", code=1)


def test_a_server_that_hangs(workplace):
    over = threading.Event()
    workplace.hub.faults["cdn"] = lambda request: over.wait()
    ended = workplace.fetch(status=1, HF_HUB_DOWNLOAD_TIMEOUT="1")
    over.set()
    assert "the server sent nothing for 1 s (6 times)" in ended.stderr


def close(request):
    request.wfile.flush()
    request.close_connection = True


def test_a_connection_that_breaks_in_the_middle_is_taken_up(workplace):
    files = large_model(workplace)
    begun = 1_000_000
    workplace.hub.faults["cdn"] = first(1, lambda request: part_of_file(request, begun, close))
    workplace.fetch_whole(files)
    assert cdn_ranges(workplace) == [None, f"bytes={begun}-"]


def leave_part(workplace, data):
    """Writes `data` as an earlier fetch's incomplete download of the large file."""
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
        workplace.fetch_whole(files)
        assert cdn_ranges(workplace) == ranges


def test_a_server_that_knows_no_ranges(workplace):
    files = large_model(workplace)

    workplace.hub.faults["cdn"] = lambda request: request.headers.__delitem__("Range")
    leave_part(workplace, files["model.safetensors"][:2_000_000])
    workplace.fetch_whole(files)


@pytest.mark.parametrize("make", [os.mkfifo, lambda place: place.symlink_to("/dev/full"), lambda place: place.touch()],
                         ids=["pipe", "link", "empty"])
def test_what_is_no_part_of_a_file_is_replaced(workplace, make):
    files = large_model(workplace)
    place = leave_part(workplace, b"")
    place.unlink()
    make(place)
    workplace.fetch_whole(files)


# --- Xet ---


def test_large_files_come_by_xet(workplace):
    files = large_model(workplace)
    workplace.hub.has_xet = True
    workplace.fetch_whole(files, FETCH_TEST_XET=workplace.hub.cdn_url)
    [path] = workplace.hub.fetched_paths("cdn")
    assert path.strip("/") == hash_of_large_file(workplace)[::-1]
    assert not any("/resolve/" in path and "safetensors" in path for path in workplace.hub.fetched_paths())


@pytest.mark.parametrize("begun, ranges", [(0, [None, None]), (1_000_000, [None, "bytes=1000000-"])])
def test_what_xet_does_not_end_comes_without_it(workplace, begun, ranges):
    files = large_model(workplace)
    workplace.hub.has_xet = True
    of_xet = hash_of_large_file(workplace)[::-1]
    workplace.hub.faults["cdn"] = to(of_xet, lambda request: part_of_file(request, begun, close))
    workplace.fetch_whole(files, FETCH_TEST_XET=workplace.hub.cdn_url)
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
    workplace.fetch_whole(files)


def test_wrong_bytes_of_a_small_file(workplace):
    right = workplace.hub.repositories[MODEL].files["generation_config.json"]
    workplace.hub.faults["main"] = to("/generation_config.json", answering(200, b"[" + right[1:]))
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
    workplace.fetch()  # by a request for the whole file
    workplace.check_snapshot(files)


def too_many_bytes(request):
    data = request.hub.blobs[request.path.strip("/")]
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    body = data + b"more"
    request.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))


def too_few_bytes(request):
    """Answers without a length, and ends early. Later requests for the rest get no bytes."""
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
    assert text in workplace.fetch(status=1 if text else 0).stderr
    assert not (workplace.folder / "evil").exists()


def test_an_answer_of_any_size_was_read(workplace):
    spaces = b" " * (9 << 20)
    for answer in (answering(200, b"[" + spaces + b"]"), answering(200, gzip.compress(b"[]"), Content_Encoding="gzip")):
        workplace.hub.faults["main"] = to("/tree/", answer)
        refused(workplace, "something else than a hub would", code=1)
    files = [{"type": "file", "path": "x" * (7 << 20), "size": 1, "oid": "a" * 40}]
    workplace.hub.faults["main"] = to("/tree/", lambda request: request.send_text(
        200, json.dumps(files).encode(), {"Link": f'<{workplace.hub.url}{request.path}>; rel="next"'}))
    refused(workplace, "something else than a hub would", code=1)
    assert len(workplace.hub.requests) < 15


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
    workplace.hub.faults["main"] = to("/tree/", lambda request: request.send_text(
        200, b"[]", {"Link": f'<{following.format(hub=workplace.hub, path=request.path)}>; rel="next"'}))
    refused(workplace, text, code=1)
    assert workplace.hub.fetched_paths("cdn") == []
