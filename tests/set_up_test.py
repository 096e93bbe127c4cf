"""An ordinary user runs cmake/setup on a host without the packages that it needs."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from hidden_files import command_that_hides

SOURCE = pathlib.Path(__file__).resolve().parent.parent
NOBODY = 65534
# The files of these packages are hidden from the user. libxxhash's library stays, because apt-get
# needs it.
LIBRARIES = ["libsentencepiece0", "libsimdjson14", "libyaml-cpp0.7"]
HEADERS = ["catch2", "libcli11-dev", "libcmark-gfm-dev", "libcmark-gfm-extensions-dev", "libgloo-dev", "libpcre2-dev",
           "libsentencepiece-dev", "libsimdjson-dev", "libsqlite3-dev", "libutf8proc-dev",
           "libxxhash-dev", "libyaml-cpp-dev", "nettle-dev", "nlohmann-json3-dev", "node-d3"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("dpkg-query") is None,
                                reason="needs root on Debian, to hide packages from an ordinary user")


def what_is_to_hide():
    """Returns the packages' files. Folders stand for the headers in them."""
    listed = subprocess.run(["dpkg-query", "--listfiles", *LIBRARIES, *HEADERS], check=True,
                            text=True, stdout=subprocess.PIPE).stdout
    hidden = set()
    for line in listed.splitlines():
        if (folder := re.match(r"/usr/(include|share/nodejs)/[^/]+", line)) is not None:
            hidden.add(folder[0])
        elif line.startswith("/usr/lib/") and not os.path.islink(line) and os.path.isfile(line):
            hidden.add(line)
    return sorted(path for path in hidden if not path.endswith("-linux-gnu"))


def status_without_packages():
    """Returns dpkg's list of installed packages, without these packages and all that depend on
    them."""
    stanzas = pathlib.Path("/var/lib/dpkg/status").read_text().split("\n\n")
    absent = set()
    found = {*LIBRARIES, *HEADERS}
    while found:
        absent |= found
        found = {name_of(stanza) for stanza in stanzas
                 if absent & depends_of(stanza)} - absent
    return "\n\n".join(stanza for stanza in stanzas if name_of(stanza) not in absent)


def name_of(stanza):
    return stanza.strip().partition("\n")[0].removeprefix("Package: ")


def depends_of(stanza):
    lines = re.findall(r"^(?:Pre-)?Depends: (.*)", stanza, re.MULTILINE)
    return set(re.findall(r"[a-z0-9][a-z0-9.+-]+", " ".join(lines)))


@pytest.fixture
def folder():
    """A source folder that the user nobody owns. nobody may enter its parents."""
    made = pathlib.Path(subprocess.run(["mktemp", "-d"], check=True, text=True,
                                       stdout=subprocess.PIPE).stdout.strip())
    for name in ("CMakeLists.txt", "CMakePresets.json", "base", "cmake", "contract", "formats", "runner",
                 "slurm_templates"):
        copy = shutil.copytree if (SOURCE / name).is_dir() else shutil.copy
        copy(SOURCE / name, made / name)
    (made / "status").write_text(status_without_packages())
    for path in (made, *made.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


def test_what_is_missing_is_unpacked_and_found(folder):
    without = command_that_hides(what_is_to_hide(),
                                 [("/var/lib/dpkg/status", folder / "status")])
    ended = subprocess.run(
        [*without, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
         "cmake/setup", "release", "", "fsdp_record"], cwd=folder, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}, stderr=subprocess.PIPE)
    if "Temporary failure resolving" in ended.stderr:
        pytest.skip("Debian's packages cannot be fetched here")
    assert ended.returncode == 0, ended.stderr
    assert (folder / "build/release/contract/libfsdp_record.a").exists()
    cache = (folder / "build/release/CMakeCache.txt").read_text()
    for library in ("nettle", "pcre2-8", "sentencepiece", "simdjson", "sqlite3", "utf8proc", "xxhash", "yaml-cpp"):
        assert re.search(rf"^{library}_LIBRARY:FILEPATH={folder}/\.deps/", cache, re.MULTILINE)
