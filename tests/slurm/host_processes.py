"""What runs on this host, as /proc tells."""
import os
import time
from pathlib import Path


def processes():
    """The id and environment of each that we may look at."""
    for process in Path("/proc").glob("[0-9]*"):
        if environment := environment_of(int(process.name)):
            yield int(process.name), environment


def environment_of(pid):
    """Empty when it has ended, or is somebody else's."""
    text = ""
    for _ in range(100):
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:
            return {}
        if text or not program_of(pid):
            break
        time.sleep(0.001)  # for a moment a process that executes another program shows none
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def program_of(pid):
    """The path of what it executes; empty when it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def state_of(pid):
    """The kernel's letter for it, such as R or T; Z when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def is_running(pid):
    return state_of(pid) not in "ZX"
