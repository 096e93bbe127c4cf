"""The output of a fetch on a terminal."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import pytest
from conftest import model_files
from waiting import LIMIT_S


def shown(workplace, columns, **environment):
    """Returns what a fetch writes to a terminal of this width. The hub delays a file until progress
    is drawn."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    half, drawn = threading.Event(), threading.Event()

    def wait_for_a_drawing(request):
        if request.server.name == "cdn":
            half.set()
            drawn.wait(LIMIT_S)

    workplace.hub.before_chunk = wait_for_a_drawing
    process = subprocess.Popen([workplace.runner, "fetch", workplace.experiment], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=terminal,
                               env=workplace.environment(TERM="xterm", **environment))
    os.close(terminal)
    text = b""
    while True:
        try:
            more = os.read(main, 1 << 16)
        except OSError:  # the end of the output
            break
        text += more
        if half.is_set() and (b" files  " in text or columns < 40):
            drawn.set()
    process.communicate()
    assert process.returncode == 0, text
    os.close(main)
    return text.decode()


@pytest.mark.parametrize("columns", [80, 30])
def test_one_bar_for_all_files_that_fits(workplace, columns):
    text = shown(workplace, columns)
    drawings = [part for part in text.split("\r\033[K") if part and not part.endswith("\n")]
    assert drawings and all(len(part.splitlines()[-1]) < columns for part in drawings)
    assert text.endswith("\r\033[K")  # the progress line is erased at the end
    if columns == 80:
        assert re.search(r"\[[=> ]{16}\] \d/7 files  [\d.]+ \w+ of [\d.]+ \w+", text), text


def test_lines_where_there_is_no_terminal(workplace):
    ended = workplace.fetch()
    assert "\033" not in ended.stderr
    assert sorted(ended.stderr.split()) == sorted(f"org/tiny-llama/{path}" for path in model_files())
