"""A token goes to the hub only. Whatever the cache is like, a fetch leaves it whole, also if several fetches
run at once or are interrupted."""
import signal
import subprocess
import threading

import pytest
from conftest import MODEL
from faults import SHARD, WANTED, cdn_ranges, large_model, part_of_file, place_of_part, refused
from waiting import LIMIT_S


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
    workplace.run(**variables)
    servers = {server: [headers for name, _, _, headers in workplace.hub.requests if name == server]
               for server in ("main", "cdn")}
    assert all(headers["Authorization"] == f"Bearer {secret}" for headers in servers["main"])
    assert servers["cdn"] and not any(secret in str(headers) for headers in servers["cdn"])
    assert secret not in ended.stdout + ended.stderr
    holding = subprocess.run(["grep", "-rl", secret, "."], cwd=workplace.folder, capture_output=True, text=True)
    own = {"HF_TOKEN": "", "token file": "./hf/token\n", "HF_TOKEN_PATH": "./secret\n"}[place]
    assert holding.stdout == own


def test_a_token_that_would_be_another_header(workplace):
    ended = workplace.fetch(HF_TOKEN="a\r\nX-Evil: 1 2", status=2)
    assert "HF_TOKEN: is not a token" in ended.stderr
    assert "X-Evil" not in ended.stderr and workplace.hub.requests == []


@pytest.mark.parametrize("content, text", [(b"two words", "is not a token"), (b"\xff\xfe", "is not a token"),
                                           (None, "the token cannot be read: Is a directory; HF_TOKEN_PATH names")])
def test_a_token_file_that_holds_none(workplace, content, text):
    place = workplace.folder / "secret"
    place.mkdir() if content is None else place.write_bytes(content)
    ended = workplace.fetch(HF_TOKEN_PATH=str(place), status=2)
    assert f"{place}: {text}" in ended.stderr
    assert "words" not in ended.stderr and workplace.hub.requests == []


# --- the cache ---


def test_a_cache_that_cannot_be_written(workplace):
    workplace.home.mkdir()
    workplace.cache.write_text("a file")
    ended = workplace.fetch(status=1)
    assert f"the cache cannot be written: {workplace.cache}" in ended.stderr
    assert "HF_HOME or HF_HUB_CACHE name another folder" in ended.stderr


def test_names_that_are_written_under_cannot_be_known_before(workplace):
    """Temporary names once had the process id, so a folder of that name ended the fetch."""
    commit = workplace.hub.repositories[MODEL].commit
    folders = [workplace.repository() / folder for folder in ("refs", f"snapshots/{commit}", f"listings/{commit}")]
    plant = 'for folder in "$@"; do [ "$folder" = -- ] && break; mkdir -p "$folder/.tmp-$$/full"; shift; done; shift'
    workplace.call("fetch", workplace.experiment,
                           prefix=["sh", "-ec", f'{plant}; exec "$@"', "-", *map(str, folders), "--"])
    workplace.check_snapshot(WANTED)
    for folder in folders:
        assert not list(folder.glob(".fsdp-run-*"))


def test_a_cache_that_lacks_nothing_need_not_be_written(workplace):
    workplace.fetch()
    before = {path: path.lstat().st_mtime_ns for path in workplace.home.rglob("*")}
    workplace.fetch()
    assert before == {path: path.lstat().st_mtime_ns for path in workplace.home.rglob("*")}


def test_a_file_that_is_larger_than_the_disk(workplace):
    large = {"size": 1 << 49, "lfs": {"oid": "a" * 64}}
    workplace.hub.change_tree = lambda entries: [
        {**entry, **large} if entry["path"] == SHARD else entry for entry in entries]
    refused(workplace, "free, and 524288.00 GiB are to be fetched", code=1)
    assert workplace.hub.fetched_paths("cdn") == []


def test_a_disk_that_is_full_in_the_middle(workplace):
    files = large_model(workplace)
    ended = workplace.call("fetch", workplace.experiment, prefix=("prlimit", "--fsize=1000000"), status=1)
    assert "the cache cannot be written" in ended.stderr
    assert place_of_part(workplace).stat().st_size == 1_000_000
    workplace.check_nothing_wrong()
    workplace.hub.requests.clear()
    workplace.fetch_whole(files)
    assert cdn_ranges(workplace) == ["bytes=1000000-"]


# --- several fetches, and interrupted ones ---


def test_two_at_once(workplace):
    files = large_model(workplace)
    both = threading.Barrier(2, timeout=LIMIT_S)

    def held_until_both_have_asked(request):
        if "/revision/" in request.path:
            both.wait()

    workplace.hub.faults["main"] = held_until_both_have_asked
    fetches = [workplace.start_fetch() for _ in range(2)]
    for process in fetches:
        _, errors = process.communicate(timeout=LIMIT_S)
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
    process = workplace.start_fetch(HF_HUB_DOWNLOAD_TIMEOUT="3600")
    assert reached.wait(LIMIT_S)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT_S)  # the server sends nothing more
    over.set()
    assert process.returncode == 130 and "continues from there" in errors, errors
    workplace.check_nothing_wrong()
    workplace.hub.faults = {}
    workplace.fetch_whole(files)
