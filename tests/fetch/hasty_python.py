"""A Python for fetch.py, with the arguments -I -c SCRIPT. It divides waits between tries, and the
largest number of pages of a file list, by 100. If FETCH_TEST_XET names an address, it provides a
fake Xet library, which downloads files from the address."""
import os
import sys
import time
import types
import urllib.request

sleep = time.sleep
time.sleep = lambda seconds: sleep(seconds / 100)


class Group:
    """A fake of hf_xet's group of downloads. The URL of a file is <address>/<Xet hash>."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start_download_file(self, info, place):
        with urllib.request.urlopen(f"{os.environ['FETCH_TEST_XET']}/{info.hash}") as answer, open(place, "wb") as file:
            while part := answer.read(100_000):
                file.write(part)
                file.flush()


class Session:
    def new_file_download_group(self, **_):
        return Group()


if "FETCH_TEST_XET" in os.environ:
    xet = types.ModuleType("hf_xet")
    xet.XetFileInfo = lambda hash, size: types.SimpleNamespace(hash=hash, size=size)
    xet.XetSession = Session
    sys.modules["hf_xet"] = xet
script = sys.argv[3].replace("MOST_PAGES = 1000", "MOST_PAGES = 10")
exec(compile(script, "fetch.py", "exec"), {"__name__": "__main__"})
