"""Odd values: numbers, texts and bytes that programs trip over."""

import json
import os
import pathlib
import random
import shutil

TEXTS = ["", " ", "\x1b[2J\x1b[31mred", "a\nforged | row | 1.0", "a\r\tb", "\x00", "nul\x00inside",
         "../../..", "..", ".", "/", "/etc/passwd", "../../../precious", "~", "$(touch pwned)",
         "`touch pwned`", "; touch pwned", "'", '"', "\\", "--help", "-", "=1+1", "@SUM(1)", "+1",
         "-1", "%s%n%d", "${strategy.ranks}", "null", "~", "true", "no", "1e400", "nan", "inf",
         "0x10", "{", "[", "<script>alert(1)</script>", "</script>", "| a | b |", "$\\alpha$",
         "\u202eabc", "\x85next", "\x9b31m", "\ufeffbom", "名前", "🙂", "e\u0301", "a" * 300,
         "b" * 5000, "con", "trial", "one", "results.sqlite", "auto", "all", "*", "%", "_", "a b",
         "a/b", "a//b", "a\\b"]

INTEGERS = [0, 1, -1, 2, 3, 7, 63, 64, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -2**31, 2**32,
            2**53, 2**53 + 1, 2**62, 2**63 - 1, -2**63, -2**63 + 1, 10**15, 10**18]

HUGE_INTEGERS = [2**63, 2**64 - 1, 2**64, -2**63 - 1, 10**30, 10**400]

REALS = [0.0, -0.0, 0.1, 1e-320, 5e-324, 1e-45, 1e-10, 1e30, 3.79e35, 1e38, 3.5e38, 1.7e308,
         -1.7e308, -1.0, 0.5, 1.5, 99.999999, 1e15, 123456789.123456789]

NOT_FINITE = [float("inf"), float("-inf"), float("nan")]


def text(random_: random.Random) -> str:
    if random_.random() < 0.8:
        return random_.choice(TEXTS)
    return "".join(chr(random_.choice([random_.randrange(0x20, 0x7f), random_.randrange(0x20),
                                       random_.randrange(0x80, 0x2fff)]))
                   for _ in range(random_.randrange(1, 40)))


def integer(random_: random.Random) -> int:
    return random_.choice(INTEGERS)


def number(random_: random.Random):
    return random_.choice(random_.choice([INTEGERS, REALS]))


def scalar(random_: random.Random):
    """Returns an odd scalar, of any type that JSON, YAML and SQLite have."""
    return random_.choice([text, integer, number, lambda _: None, lambda _: True,
                           lambda _: random_.choice(NOT_FINITE),
                           lambda _: random_.choice(HUGE_INTEGERS)])(random_)


def nested(random_: random.Random, opening: str = "[", closing: str = "]") -> str:
    """Returns nested brackets, deep enough to crash a recursive reader."""
    depth = random_.choice([100, 1000, 20_000, 200_000])
    return opening * depth + ("1" if opening[-1] == ":" else "") + (closing * depth if
                                                                    random_.random() < 0.7 else "")


def json_of(random_: random.Random, value) -> bytes:
    text = json.dumps(value, ensure_ascii=random_.random() < 0.5)
    return text.encode("utf-8", "surrogateescape")


def is_changeable(file: pathlib.Path) -> bool:
    """True if `file` is still a regular file that can be read and written."""
    return file.is_file() and os.access(file, os.R_OK | os.W_OK)


def put(place: pathlib.Path, what: str, contents: bytes = b"") -> None:
    """Puts `what` in place of what is there: a folder, a link, a pipe, nothing, or a file of these
    contents. "unreadable" and "read-only" only change the mode."""
    if what in ("unreadable", "read-only"):
        return place.chmod(0 if what == "unreadable" else 0o444)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    if what == "folder":
        place.mkdir()
    elif what in ("loop", "dangling"):
        place.symlink_to(place.name if what == "loop" else "nowhere")
    elif what == "pipe":
        os.mkfifo(place)
    elif what != "gone":
        place.write_bytes(contents)
    return None


def damaged(random_: random.Random, contents: bytes) -> tuple[bytes, str]:
    """Returns the contents with some bytes changed, and a description of the change."""
    size = len(contents)
    at = random_.randrange(size) if size else 0
    length = random_.choice([1, 2, 8, 100, 4096])
    match random_.randrange(9):
        case 0:
            changed = bytearray(contents)
            count = random_.choice([1, 1, 2, 10, 100])
            for _ in range(count if size else 0):
                changed[random_.randrange(size)] ^= 1 << random_.randrange(8)
            return bytes(changed), f"{count} bits flipped"
        case 1:
            return contents[:at], f"cut short at {at}"
        case 2:
            return contents[:at] + bytes(length) + contents[at + length:], f"zeros at {at}"
        case 3:
            return contents[:at] + contents[at + length:], f"{length} bytes left out at {at}"
        case 4:
            piece = contents[at:at + length]
            return contents[:at] + piece + contents[at:], f"{length} bytes repeated at {at}"
        case 5:
            return (contents[:at] + random_.randbytes(length) + contents[at + length:],
                    f"noise at {at}")
        case 6:
            return contents + random_.randbytes(length), f"{length} bytes more"
        case 7:
            return b"", "empty"
        case _:
            return random_.randbytes(random_.choice([1, 16, 5000])), "noise only"
