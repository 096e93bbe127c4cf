"""The cache of a hub with missing files, dangling links, pipes and damaged records. A run uses only
complete files, and a fetch completes the cache."""

import json
import os
import pathlib
import shutil

from tests.fetch.hub import Hub
from tests.hostile import artefacts, odd
from tests.hostile.case import Case

CACHE = "hf/hub"
OTHER_COMMIT = "0123456789abcdef" * 2 + "01234567"


class Cache:
    """The cache of a case, and what was done to it."""

    def __init__(self, case: Case):
        self.case = case
        case.take("hub_cache/hf", "hf")
        case.write("experiment.yaml", artefacts.HUB_EXPERIMENT)
        self.repositories = artefacts.hub_repositories(case.artefacts)
        self.may_be_refused = False  # some files have other contents or are unreadable

    def folder(self, name: str) -> pathlib.Path:
        kind, name = ("datasets", name[9:]) if name.startswith("datasets/") else ("models", name)
        return self.case.work / CACHE / f"{kind}--{name.replace('/', '--')}"

    def snapshot(self, name: str) -> pathlib.Path:
        return self.folder(name) / "snapshots" / self.repositories[name].commit

    def what_is_missing(self) -> list[str]:
        """Returns the files that a run needs and that are not there in their size."""
        def is_there(path: pathlib.Path, size: int) -> bool:
            try:
                return path.is_file() and path.stat().st_size == size
            except OSError:
                return False

        return [path for name, repository in self.repositories.items()
                for path, data in repository.files.items()
                if not path.startswith("unwanted") and not is_there(self.snapshot(name) / path, len(data))]

    def a_file(self, pattern: str) -> pathlib.Path | None:
        file = self.case.random.choice(sorted((self.case.work / CACHE).glob(pattern)) or [None])
        return file if file and odd.is_changeable(file) else None


def attack(case: Case) -> None:
    cache = Cache(case)
    changes = [change_file, change_file, change_blob, change_ref, change_listing, change_listing, move_folder, forbid]
    for _ in range(case.random.choice([1, 1, 2, 4])):
        case.random.choice(changes)(cache)
    judge(cache)
    if case.random.random() < 0.5:
        fetch_again(cache)


def judge(cache: Cache) -> bool:
    """Checks that check and --dry-run agree, and accept only complete files."""
    case = cache.case
    checked, _ = case.check_and_plan("experiment.yaml", environment={"HF_HOME": str(case.work / "hf")})
    missing = cache.what_is_missing()
    if checked.ok and missing:
        case.fail(f"check accepts a cache without {', '.join(missing)}\n{checked.excerpt()}")
    return checked.ok


def fetch_again(cache: Cache) -> None:
    case = cache.case
    hub = Hub()
    try:
        hub.repositories = cache.repositories
        environment = {"HF_HOME": str(case.work / "hf"), "HF_ENDPOINT": hub.url}
        fetched = case.fsdp_run("fetch", "experiment.yaml", "--patience", "2", may_change=("hf",),
                                environment=environment)
    finally:
        hub.stop()
    is_accepted = judge(cache)
    if fetched.ok and not is_accepted and not cache.may_be_refused:
        case.fail("a run does not take what was fetched")


def replace(case: Case, place: pathlib.Path, contents: bytes) -> str:
    """Puts something else in place of a file. Returns its description."""
    if not os.path.lexists(place):
        return "gone already"
    what = case.random.choice(["gone", "folder", "loop", "dangling", "pipe", "longer", "shorter", "empty"])
    odd.put(place, what, {"longer": contents + b"x", "shorter": contents[:-1]}.get(what, b""))
    return what


def change_file(cache: Cache) -> None:
    case = cache.case
    name = case.random.choice(sorted(cache.repositories))
    path, data = case.random.choice(sorted(cache.repositories[name].files.items()))
    place = cache.snapshot(name) / path
    if case.random.random() < 0.8:
        what = replace(case, place, data)
    elif os.path.exists(place.parent) and case.random.random() < 0.5:  # like a file system without links
        place.unlink(missing_ok=True)
        place.write_bytes(data)
        what = "a file itself"
    else:
        shutil.rmtree(cache.snapshot(name) / path.split("/")[0], ignore_errors=True)
        what = "gone with its folder"
    case.note(f"{name}/{path}: {what}")


def change_blob(cache: Cache) -> None:
    case = cache.case
    if not (blob := cache.a_file("*/blobs/*")):
        return
    contents = blob.read_bytes()
    if case.random.random() < 0.7:
        what = replace(case, blob, contents)
    else:
        blob.write_bytes(case.random.randbytes(len(contents)))
        cache.may_be_refused = True  # wrong contents of the right size
        what = "noise of its size"
    case.note(f"blob {blob.name[:8]}: {what}")


def change_ref(cache: Cache) -> None:
    case = cache.case
    ref = cache.folder(case.random.choice(sorted(cache.repositories))) / "refs/main"
    contents = cache.case.random.choice(
        [b"", b"../../..", b"x" * 10_000_000, OTHER_COMMIT.encode(), b"\x00" * 40, b"\x1b[2J", None, None])
    if contents is None:
        case.note(f"ref: {replace(case, ref, b'main')}")
    elif odd.is_changeable(ref):
        ref.write_bytes(contents)
        case.note(f"ref: {contents[:20]!a}")


def change_listing(cache: Cache) -> None:
    case = cache.case
    if not (listing := cache.a_file("*/listings/*/*")):
        return
    contents = listing.read_bytes()
    what = case.random.choice(["replaced", "damaged", "deep", "entry", "entry", "of another folder", "large"])
    if what == "replaced":
        what = replace(case, listing, contents)
    elif what == "damaged":
        case.damage(listing)
    elif what == "deep":
        listing.write_text(odd.nested(case.random))
    elif what == "of another folder":
        shutil.copyfile(case.random.choice(sorted(listing.parent.iterdir())), listing.parent / "x")
        (listing.parent / "x").replace(listing)
    elif what == "large":
        listing.write_bytes(contents[:-2] + b',{"path":"x","size":1,"oid":"%s"}' % (b"a" * 40) * 20_000 + b"]}")
    else:
        what = change_entry(case, listing, contents)
    case.note(f"listing: {what}"[:200])


def change_entry(case: Case, listing: pathlib.Path, contents: bytes) -> str:
    try:
        parsed = json.loads(contents)
        entry = case.random.choice(parsed["files"])
        key = case.random.choice(["path", "size", "oid", "lfs"])
        entry[key] = odd.scalar(case.random)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return "an entry of what is damaged"
    listing.write_bytes(json.dumps(parsed).encode("utf-8", "surrogateescape"))
    return f"{key} = {entry[key]!a}"


def move_folder(cache: Cache) -> None:
    """Moves a folder of the cache, and leaves a link to it."""
    case = cache.case
    folder = cache.folder(case.random.choice(sorted(cache.repositories)))
    part = folder / case.random.choice(["", "snapshots", "blobs", "refs", "listings", "snapshots/*"])
    found = sorted(part.parent.glob(part.name))
    if not found or found[0].is_symlink() or not found[0].is_dir() or not os.access(found[0], os.W_OK):
        return
    elsewhere = case.work / "hf/a/b/c" / f"{len(case.notes)}-{found[0].name}"
    elsewhere.parent.mkdir(parents=True, exist_ok=True)
    found[0].rename(elsewhere)
    if case.random.random() < 0.8:
        found[0].symlink_to(elsewhere)
    case.note(f"{part.name} moved")


def forbid(cache: Cache) -> None:
    case = cache.case
    place = case.random.choice(sorted((case.work / CACHE).rglob("*")) or [None])
    if place is None or place.is_symlink() or not place.exists():
        return
    place.chmod(0)
    cache.may_be_refused = True
    case.note(f"{place.name} may not be read")
