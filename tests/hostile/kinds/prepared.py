"""Prepared files that are damaged, swapped or planted as links, and data that changes while it is prepared."""

import json
import os
import pathlib
import threading
import time

from tests.hostile.case import Case
from tests.hostile.kinds import texts

PREPARED = "results/prepared"
HEADER_BYTES = 664


def attack(case: Case) -> None:
    case.write("experiment.yaml", texts.experiment("text", "data.jsonl", case.random.choice(["pad", "pack"])))
    case.random.choice([damaged, damaged, planted, changing, changing, replaced_at_start])(case)


def lines(case: Case, count: int) -> bytes:
    words = ["e4", "e5", "Nf3", "Nc6", "Bb5", "a6"]
    return "".join(json.dumps({"text": " ".join(case.random.choices(words, k=8))}) + "\n"
                   for _ in range(count)).encode()


def prepare(case: Case, results: str = "results", changes: tuple[str, ...] = ()):
    return case.fsdp_run("prepare", "experiment.yaml", "--results", results, may_change=(results, *changes))


def tokens(case: Case, results: str = "results") -> dict[str, bytes]:
    """Returns the prepared files by name, except links."""
    return {file.name: file.read_bytes() for file in (case.work / results / "prepared").glob("*.tokens")
            if file.is_file() and not file.is_symlink()}


def made(case: Case, results: str) -> dict[str, bytes]:
    ended = prepare(case, results)
    if not ended.ok:
        case.fail(f"valid data cannot be prepared\n{ended.excerpt()}")
    return tokens(case, results)


def damage(case: Case, file: pathlib.Path, contents: bytes) -> None:
    """Writes a damaged regular file to `file`."""
    random = case.random
    half = len(contents) // 2
    place = random.randrange(len(contents))
    what, other = random.choice([
        ("second half zeroed", contents[:half] + bytes(len(contents) - half)),
        ("first half zeroed", bytes(half) + contents[half:]),
        ("all but the header zeroed", contents[:HEADER_BYTES] + bytes(len(contents) - HEADER_BYTES)),
        (f"cut short at {place}", contents[:place]), ("empty", b""), ("longer", contents + b"\0" * 8),
        (f"bit {place} changed", contents[:place] + bytes([contents[place] ^ 1]) + contents[place + 1:]),
        ("another version", contents[:8] + b"\1" + contents[9:]),
        ("counts beyond all measure", contents[:16] + b"\xff" * 16 + contents[32:]),
        ("other bytes", random.randbytes(len(contents))), ("of other data", of_other_data(case))])
    case.note(what)
    file.unlink()
    file.write_bytes(other)


def of_other_data(case: Case) -> bytes:
    data = (case.work / "data.jsonl").read_bytes()
    case.write("data.jsonl", lines(case, 30))
    [contents] = made(case, "others").values()
    case.write("data.jsonl", data)
    return contents


def damaged(case: Case) -> None:
    case.write("data.jsonl", lines(case, 40))
    good = made(case, "results")
    [(name, contents)] = good.items()
    damage(case, case.work / PREPARED / name, contents)
    if not prepare(case).ok or tokens(case) != good:
        case.fail("a damaged prepared file is not made again as it was")


def planted(case: Case) -> None:
    random = case.random
    case.write("data.jsonl", lines(case, 40))
    [(name, contents)] = made(case, "reference").items()
    folder = case.work / PREPARED
    folder.mkdir(parents=True)
    targets = [case.work / "precious", case.folder / "home" / "precious", case.folder / "home" / "new", folder,
               pathlib.Path("/dev/full")]
    names = random.sample([name, name + ".partial", ".lock"], random.randint(1, 3))
    for each in names:
        target = random.choice(targets)
        (folder / each).symlink_to(target)
        case.note(f"{each} leads to {target}")
    ended = prepare(case)
    if ".lock" in names:
        if ended.ok:
            case.fail("a lock that leads elsewhere is taken")
    elif not ended.ok or tokens(case) != {name: contents}:
        case.fail(f"links in the folder of prepared files are not replaced\n{ended.excerpt()}")


def changing(case: Case) -> None:
    """Data changes while it is prepared. A prepared file with the name of a version must have its
    tokens."""
    random = case.random
    count = random.choice([40, 5_000, 40_000])
    versions = [lines(case, count)]
    change = random.choice(["overwritten", "replaced", "cut short", "grown", "back again"])
    whole_lines = versions[0].rfind(b"\n", 0, random.randrange(100, len(versions[0]))) + 1
    versions.append({"cut short": versions[0][:whole_lines],
                     "grown": versions[0] + lines(case, 40)}.get(change) or lines(case, count))
    known: dict[str, bytes] = {}
    begin = time.monotonic()
    for i, version in enumerate(versions):
        case.write("data.jsonl", version)
        known |= made(case, f"version-{i}")
    takes_s = (time.monotonic() - begin) / 2
    data = case.write("data.jsonl", versions[0])
    after_s = random.random() * takes_s
    case.note(f"{change} after {after_s:.3f} s of {takes_s:.3f} s")
    thread = threading.Thread(target=alter, args=(data, change, versions, after_s))
    thread.start()
    ended = prepare(case, changes=("data.jsonl", "data.new"))
    thread.join()
    for name, contents in tokens(case).items():
        if name not in known:
            case.note(f"{name} is of neither version")
        if known.get(name) != contents:
            case.fail(f"{name} does not hold the tokens of what its name says\n{ended.excerpt()}")
    for file in (case.work / PREPARED).glob("*"):
        if file.suffix != ".tokens" and file.name != ".lock":
            case.fail(f"left behind: {file.name}")


def alter(data: pathlib.Path, change: str, versions: list[bytes], after_s: float) -> None:
    time.sleep(after_s)
    if change == "cut short":
        os.truncate(data, len(versions[1]))
    elif change == "grown":
        with data.open("ab") as file:
            file.write(versions[1][len(versions[0]):])
    elif change == "replaced":
        data.with_name("data.new").write_bytes(versions[1])
        data.with_name("data.new").rename(data)
    else:
        data.write_bytes(versions[1])
        if change == "back again":
            data.write_bytes(versions[0])


def replaced_at_start(case: Case) -> None:
    """Replaces a prepared file by a damaged one while a run starts."""
    case.write("data.jsonl", lines(case, 40))
    [(name, contents)] = made(case, "results").items()
    file = case.work / PREPARED / name
    other = file.with_suffix(".other")
    other.write_bytes(contents)
    damage(case, other, contents)
    after_s = case.random.random()
    case.note(f"replaced after {after_s:.3f} s")

    def replace() -> None:
        time.sleep(after_s)
        other.rename(file)

    thread = threading.Thread(target=replace)
    thread.start()
    ended = case.train("experiment.yaml", stub=False)
    thread.join()
    logs = b"".join(log.read_bytes() for log in (case.work / "results").glob("runs/*/*/attempt-*/*.log"))
    if not ended.ok and name.encode() not in ended.errors + ended.output + logs:
        case.fail(f"a run fails without the name of its prepared file\n{ended.excerpt()}")
