"""The contents of a folder: names, kinds, modes, sizes and bytes."""

import fnmatch
import hashlib
import os
import pathlib
import stat

Entry = tuple
Snapshot = dict[str, Entry]


def take(folder: pathlib.Path) -> Snapshot:
    entries: Snapshot = {}
    unread = [os.fsencode(folder)]
    root = len(os.fsencode(folder)) + 1
    while unread:
        try:
            with os.scandir(unread.pop()) as items:
                found = list(items)
        except PermissionError:  # the case made it unreadable
            continue
        for item in found:
            entries[os.fsdecode(item.path[root:])] = describe(item)
            if item.is_dir(follow_symlinks=False):
                unread.append(item.path)
    return entries


def describe(item: os.DirEntry) -> Entry:
    status = item.stat(follow_symlinks=False)
    kind = stat.S_IFMT(status.st_mode)
    contents: object = None
    if stat.S_ISLNK(status.st_mode):
        contents = os.readlink(item.path)
    elif stat.S_ISREG(status.st_mode):
        contents = (status.st_size, digest(item.path))
    return (kind, stat.S_IMODE(status.st_mode), contents)


def digest(path: bytes) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except PermissionError:
        return "not readable"


def changes(before: Snapshot, after: Snapshot, allowed: tuple[str, ...]) -> list[str]:
    """Returns the differences, except in `allowed` names and below them. `*` in a name matches
    anything."""

    def may_differ(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, part) or name.startswith(part + "/")
                   for part in allowed)

    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name) or may_differ(name):
            continue
        what = "appeared" if name not in before else "gone" if name not in after else "differs"
        found.append(f"{ascii(name)}: {what}")
    return found
