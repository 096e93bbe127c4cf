"""A fetch brings the right files. Runs and Hugging Face's library use them without the network."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MODEL, UNWANTED, model_files
from hub import Repository

ROOT = Path(__file__).parents[2]
WANTED = set(model_files())
TRAIN = "hf://datasets/org/games/data/train.csv"


def test_only_what_is_needed_is_fetched(workplace):
    ended = workplace.fetch_whole(WANTED)
    assert (workplace.repository() / "refs/main").read_text() == workplace.hub.repositories[MODEL].commit
    assert re.fullmatch(rf"{MODEL}: {len(WANTED)} files, [0-9.]+ [KM]iB, in {workplace.snapshot()}\n", ended.stdout)
    asked = " ".join(workplace.hub.fetched_paths())
    assert not any(name in asked for name in UNWANTED)
    assert workplace.incomplete() == []


def test_a_second_fetch_gets_nothing_again(workplace):
    workplace.fetch()
    gets_nothing_again(workplace)
    assert len(workplace.hub.requests) == 3  # the commit, and the lists of its files and its chat templates


def test_weights_of_a_single_file_and_of_torch(workplace):
    config = model_files()["config.json"]
    for name, weights in {"org/whole": "model.safetensors", "org/torch": "pytorch_model.bin"}.items():
        files = {"config.json": config, weights: os.urandom(150_000), "tokenizer.model": b"t"}
        workplace.hub.repositories[name] = Repository(files)
        workplace.write(name)
        workplace.fetch_whole(files, name)


def test_a_revision_is_that_and_no_other(workplace):
    commit = workplace.hub.repositories[MODEL].commit
    workplace.hub.repositories[MODEL].branch = "refs/pr/1"
    for revision in ("refs%2Fpr%2F1", commit):
        workplace.write(f"{MODEL}@{revision}")
        workplace.fetch_whole(WANTED)
    refs = workplace.repository() / "refs"
    assert [str(path.relative_to(refs)) for path in refs.rglob("*") if path.is_file()] == ["refs/pr/1"]


def test_files_and_folders_of_data(workplace):
    workplace.hub.page_size = 1  # file lists of many pages
    workplace.write(None, **{"data.train": TRAIN})
    workplace.fetch_whole({"data/train.csv"}, "datasets/org/games")
    workplace.write(None, **{"data.train": "hf://datasets/org/games/data"})
    workplace.fetch_whole({"data/train.csv", "data/test.csv"}, "datasets/org/games")


def test_the_lab_with_alpaca_is_fetched_and_has_no_mistake(workplace):
    pieces = (ROOT / "experiments/data/chess/tokenizer.model").read_bytes()
    model = {**model_files(), "tokenizer.model": pieces}
    del model["tokenizer.json"]
    workplace.hub.repositories["openlm-research/open_llama_7b"] = Repository(model)
    records = [{"instruction": f"Add {i} and 1.", "input": "", "output": str(i + 1)} for i in range(1600)]
    workplace.hub.repositories["datasets/yahma/alpaca-cleaned"] = Repository(
        {"alpaca_data_cleaned.json": json.dumps(records).encode()})
    lab = [ROOT / "experiments/lab.yaml", "--profile", "alpaca", "--set", "data.sequence_length=200",
           "--set", "device=cpu"]
    workplace.call("fetch", *lab)
    checked = workplace.call("check", *lab)
    assert "5 runs, no mistake found" in checked.stdout, checked.stderr


def test_a_file_of_a_folder_is_not_the_folder(workplace):
    workplace.write(**{"data.train": TRAIN})
    workplace.fetch()
    workplace.write(**{"data.train": "hf://datasets/org/games/data"})
    refused(workplace, f"'data.train': datasets/org/games/data is in {workplace.cache}, but the hub's list")
    workplace.fetch()
    ended = workplace.run(status=2)
    assert "is a folder without one of the files" in ended.stderr  # a later check


def test_a_file_of_a_repository_is_not_the_repository(workplace):
    """A run used to accept a tokenizer without its settings, and got other tokens."""
    workplace.write(None, **{"data.tokenizer": f"hf://{MODEL}/tokenizer.model"})
    workplace.fetch()
    for keys, missing in (({"data.tokenizer": f"hf://{MODEL}", "source": None}, "config.json"),
                          ({"source": MODEL}, "model.safetensors.index.json")):
        workplace.write(**keys)
        refused(workplace, f"{MODEL} is not complete in {workplace.cache}", f"{missing} is missing")
    workplace.write(None, **{"data.tokenizer": f"hf://{MODEL}"})
    workplace.fetch()
    (workplace.snapshot() / "tokenizer_config.json").unlink()
    refused(workplace, "'data.tokenizer'", "tokenizer_config.json is missing")


def test_a_fetch_of_one_file_does_not_end_another_fetch(workplace):
    workplace.fetch()
    (workplace.snapshot() / "generation_config.json").unlink()  # as if killed before
    workplace.write(None, **{"data.tokenizer": f"hf://{MODEL}/tokenizer.model"})
    workplace.fetch()
    workplace.write()
    refused(workplace, "generation_config.json is missing")


def refused(workplace, *texts):
    ended = workplace.run(status=2)
    for text in (*texts, "fsdp-run fetch EXPERIMENT"):
        assert text in ended.stderr, ended.stderr


def test_folders_of_like_names_are_told_apart(workplace):
    games = workplace.hub.repositories["datasets/org/games"].files["data/train.csv"]
    workplace.hub.repositories["datasets/org/alike"] = Repository(
        {f"{folder}/{name}.csv": games for folder in ("a/b", "a%2Fb") for name in "xy"})
    for whole, part in (("a/b", "a%2Fb"), ("a%2Fb", "a/b")):
        shutil.rmtree(workplace.cache, ignore_errors=True)
        for path in (whole, f"{part}/x.csv"):
            workplace.write(None, **{"data.train": f"hf://datasets/org/alike/{path}"})
            workplace.fetch()
        workplace.write(None, **{"data.train": f"hf://datasets/org/alike/{part}"})
        refused(workplace, "but the hub's list of its files is not")


def test_long_paths(workplace):
    folder = "/".join(["f" * 240] * 3)
    files = {f"{folder}/{'n' * 240}{number}.csv": b"x" * number for number in (1, 2)}
    workplace.hub.repositories["datasets/org/long"] = Repository(files)
    workplace.write(None, **{"data.train": f"hf://datasets/org/long/{folder}"})
    workplace.fetch_whole(files, "datasets/org/long")


def test_a_model_without_one_of_its_shards_or_with_a_short_one_is_not_taken(workplace):
    workplace.fetch()
    shard = workplace.snapshot() / "model-00002-of-00002.safetensors"
    for change, text in ((lambda: os.truncate(shard, 1000),
                          f"{shard.name} is missing, or is not what the hub lists"),
                         (shard.resolve().unlink, f"'model.source': {MODEL} is not complete in")):
        change()
        refused(workplace, text)
        workplace.fetch_whole(WANTED)


def test_runs_read_the_cache_when_the_server_is_gone(workplace):
    workplace.write(**{"data.train": TRAIN})
    missing = workplace.run(status=2)
    assert (f"{workplace.experiment}:2:" in missing.stderr
            and f"'model.source': {MODEL} is not in {workplace.cache}" in missing.stderr
            and "fsdp-run fetch EXPERIMENT" in missing.stderr), missing.stderr
    assert workplace.hub.requests == []
    workplace.fetch()
    workplace.hub.stop()
    workplace.run()
    [spec] = workplace.results.glob("runs/trial/*/run.yaml")
    assert f'source: "{workplace.snapshot()}"' in spec.read_text()
    # A run's identity is the contents of its files, not their place.
    shutil.copytree(workplace.snapshot(), workplace.folder / "copy")
    workplace.write("copy", **{"data.train": TRAIN})
    again = workplace.run()
    assert "1 run with a result already" in again.stderr, again.stderr


def test_a_local_folder_of_that_name_is_taken(workplace):
    workplace.fetch()
    shutil.copytree(workplace.snapshot(), workplace.folder / MODEL)
    workplace.hub.requests.clear()
    ended = workplace.fetch(status=None)
    assert "names no model or data on a hub" in ended.stdout
    assert workplace.hub.requests == []


def gets_nothing_again(workplace):
    workplace.hub.requests.clear()
    workplace.fetch()
    assert not any("/resolve/" in path for path in workplace.hub.fetched_paths())


def test_a_snapshot_whose_links_are_not_all_made_is_not_taken(workplace):
    workplace.fetch()
    for path in ("tokenizer_config.json", "model.safetensors.index.json"):
        (workplace.snapshot() / path).unlink()
        refused(workplace, f"{MODEL} is not complete in {workplace.cache}", f"{path} is missing")
        gets_nothing_again(workplace)
        workplace.check_snapshot(WANTED)
    workplace.run()


def test_a_list_that_is_damaged_is_asked_for_again(workplace):
    workplace.fetch()
    # The smaller list is of additional_chat_templates/, which the hub does not have.
    _, listing = sorted(workplace.repository().glob("listings/*/*"), key=lambda file: file.stat().st_size)
    for damage in (b"", b"{", b"[" * 100_000, b"[]", b"{}", b'{"folder": "other", "is_recursive": false, "files": []}',
                   b'{"folder": "", "is_recursive": false, "files": [{"path": "../../evil", "size": 1, "oid": "a"}]}',
                   "pipe", None):
        listing.unlink()
        if damage == "pipe":
            os.mkfifo(listing)
        elif damage is not None:
            listing.write_bytes(damage)
        refused(workplace, f"{MODEL} is in {workplace.cache}, but the hub's list of its files is not",
                f"or give the path {workplace.snapshot()}")
        gets_nothing_again(workplace)
    workplace.run()


def test_a_cache_whose_folders_are_links(workplace):
    """Links in a snapshot that was moved used to lead nowhere, and the fetch did not notice."""
    workplace.fetch()
    elsewhere = workplace.folder / "a/b/c/d"
    elsewhere.mkdir(parents=True)
    for part in ("snapshots/*", "snapshots", "blobs", ""):
        [folder] = workplace.repository().glob(part) if part else [workplace.repository()]
        folder.rename(elsewhere / folder.name)
        folder.symlink_to(elsewhere / folder.name)
        for link in workplace.snapshot().rglob("*.json"):
            link.unlink()
        gets_nothing_again(workplace)
        workplace.check_snapshot(WANTED)
    workplace.run()


def test_a_pipe_in_the_cache_is_not_waited_for(workplace):
    workplace.fetch()
    for part in ("blob", "snapshots/*/config.json", "refs/main"):
        place = ((workplace.snapshot() / "config.json").resolve() if part == "blob" else
                 next(workplace.repository().glob(part)))
        place.unlink()
        os.mkfifo(place)
        ended = workplace.run(status=2)
        named = "config.json is missing" if part == "blob" else str(place)
        assert named in ended.stderr
        workplace.fetch(status=2 if part == "refs/main" else 0)
        if part != "refs/main":
            workplace.check_snapshot(WANTED)


DOWNLOAD = f"""
from huggingface_hub import snapshot_download
snapshot_download("{MODEL}", allow_patterns={sorted(WANTED)})"""


def in_python(workplace, code, **environment):
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           env=workplace.environment(HF_HUB_DISABLE_XET="1", **environment))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_hugging_faces_library_finds_what_was_fetched(workplace):
    workplace.write(**{"data.train": TRAIN})
    workplace.fetch()
    workplace.hub.stop()
    found = in_python(workplace, f"""
import json
from huggingface_hub import hf_hub_download, snapshot_download, scan_cache_dir
paths = [snapshot_download("{MODEL}", local_files_only=True)]
for path in {sorted(WANTED)}:
    paths.append(hf_hub_download("{MODEL}", path, local_files_only=True))
paths.append(hf_hub_download("org/games", "data/train.csv", repo_type="dataset", local_files_only=True))
cache = scan_cache_dir()
assert not cache.warnings, cache.warnings
assert len(cache.repos) == 2
print(json.dumps(paths))
""")
    games = workplace.snapshot("datasets/org/games")
    assert json.loads(found) == [str(path) for path in (
        workplace.snapshot(), *(workplace.snapshot() / path for path in sorted(WANTED)), games / "data/train.csv")]


def test_hugging_faces_library_takes_what_was_fetched_and_the_other_way_round(workplace):
    workplace.fetch()
    workplace.hub.requests.clear()
    in_python(workplace, DOWNLOAD)
    assert not any("/resolve/" in path for path in workplace.hub.fetched_paths())
    shutil.rmtree(workplace.cache)
    in_python(workplace, DOWNLOAD)
    workplace.check_snapshot(WANTED)
    refused(workplace, f"{MODEL} is in {workplace.cache}, but the hub's list of its files is not")
    gets_nothing_again(workplace)
    workplace.run()


def test_one_file_of_hugging_faces_library_is_no_model(workplace):
    in_python(workplace, f"""
from huggingface_hub import hf_hub_download
hf_hub_download("{MODEL}", "config.json")""")
    refused(workplace, f"{MODEL} is in {workplace.cache}, but the hub's list of its files is not")
    workplace.fetch_whole(WANTED)


@pytest.mark.parametrize("variables, folder", [
    ({"HF_HUB_CACHE": "elsewhere"}, "elsewhere"), ({"HF_HOME": "home"}, "home/hub"),
    ({"HF_HOME": ""}, "cache/huggingface/hub"), ({"HF_HOME": "", "XDG_CACHE_HOME": ""}, ".cache/huggingface/hub"),
    ({"HF_HOME": "~/tilde"}, "tilde/hub")])
def test_the_cache_is_where_hugging_faces_library_has_it(workplace, variables, folder):
    workplace.fetch(**variables)
    assert (workplace.folder / folder / "models--org--tiny-llama/refs/main").exists()


def test_a_newer_commit_is_fetched_and_taken(workplace):
    workplace.fetch()
    old = workplace.snapshot()
    workplace.hub.repositories[MODEL] = Repository({**model_files(), "generation_config.json": b'{"a": 1}'})
    workplace.hub.requests.clear()
    workplace.fetch()
    assert len([path for path in workplace.hub.fetched_paths() if "/resolve/" in path]) == 1
    workplace.check_snapshot(WANTED)
    assert workplace.snapshot() != old and old.exists()
