"""The processes of this host, from /proc."""
import os
import time
from pathlib import Path


def processes():
    """Yields the id and environment of each process that we may inspect."""
    for process in Path("/proc").glob("[0-9]*"):
        if environment := environment_of(int(process.name)):
            yield int(process.name), environment


def environment_of(pid):
    """Returns a process's environment. Empty if it has ended, or if it is another user's."""
    text = ""
    for _ in range(100):
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:
            return {}
        if text or not program_of(pid):
            break
        time.sleep(0.001)  # during exec, the environment is empty for a moment
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def program_of(pid):
    """Returns the path of the process's program. Empty if the process has ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def state_of(pid):
    """Returns the kernel's letter for the state, such as R or T. Z if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def is_running(pid):
    return state_of(pid) not in "ZX"
