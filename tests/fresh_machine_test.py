"""New users call ./fsdp-run on machines that were never used (tests/fresh_machine). The first test is
part of the full tests, the others of the nightly ones."""
import os
import pathlib
import random
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SEED = int(os.environ.get("FSDP_TEST_SEED", "1"))
INTERRUPTIONS = 10
# Finds what programs and libraries in .deps lack. A library without libraries of its own has no
# line of ldd to look at.
WHAT_DEPS_LACK = r"""
export LD_LIBRARY_PATH=$PWD/.deps/usr/lib/x86_64-linux-gnu:$PWD/.deps/lib/x86_64-linux-gnu
find .deps -type f \( -perm -u+x -o -name '*.so*' \) | while read -r file; do
  head -c 4 "$file" | grep -q ELF && ldd "$file" 2>/dev/null | grep 'not found' | sed "s|^|$file: |"
done
find .deps/usr/bin -type f -perm -u+x | while read -r program; do
  "$program" --version >/dev/null 2>&1 </dev/null || [ $? -lt 126 ] || echo "$program does not start"
done
find .deps -xtype l -name '*.so*' -printf '%p leads to nothing\n'
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mmdebstrap") is None,
                                reason="needs root and mmdebstrap")


class Machine:
    def __init__(self, folder, user):
        self.folder, self.user = folder, user

    def calls(self, *command, **settings):
        """Calls the command as the user. Returns its exit status and all output."""
        ended = subprocess.run(
            [SOURCE / "tests/fresh_machine", self.user, *command], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "FRESH_MACHINE": str(self.folder), **{f"FRESH_{k}": v for k, v in settings.items()}})
        if "Temporary failure resolving" in ended.stdout and "NETWORK" not in settings:
            pytest.skip("Debian's packages cannot be fetched here")
        return ended.returncode, ended.stdout

    def shell(self, script):
        return self.calls("bash", "-c", script)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """machine(user): a machine for one of the users, the same for all tests."""
    made = {}

    def machine_of(user):
        return made.setdefault(user, Machine(tmp_path_factory.mktemp("machines") / user, user))

    yield machine_of
    for each in made.values():
        subprocess.run(["rm", "-rf", "--one-file-system", each.folder], check=True)


def test_an_ordinary_users_first_call(machine):
    user = machine("user")
    status, text = user.calls("./fsdp-run", "--version", NETWORK="no")
    assert status == 1 and "This host could not reach: deb.debian.org" in " ".join(text.split()), text
    status, text = user.calls("./fsdp-run", "--version")
    assert status == 0 and text.splitlines()[-1].startswith("fsdp-run "), text
    assert "MB), to be unpacked into .deps as there is no root" in text
    assert user.shell(WHAT_DEPS_LACK) == (0, "")
    status, text = user.calls("./fsdp-run", "--version", NETWORK="no")
    assert status == 0 and len(text.splitlines()) == 1, text


def test_a_checkout_of_somebody_else_is_told(machine):
    status, text = machine("user").shell(
        "cp -r . /tmp/copy && rm -rf /tmp/copy/build /tmp/copy/.deps && chmod -R a-w /tmp/copy && /tmp/copy/fsdp-run --version")
    assert status == 2 and "you may not write to it. It belongs to student" in text, text
    assert "ermission denied" not in text


@pytest.mark.nightly
def test_a_user_without_a_compiler_is_told_what_to_ask_for(machine):
    status, text = machine("bare").calls("./fsdp-run", "experiments/lab.yaml")
    assert status == 2, text
    assert "g++ and python3-venv are missing, and only an administrator can install this" in text
    assert "apt-get install g++ python3-venv" in text and "CMAKE_PREFIX_PATH" not in text


@pytest.mark.nightly
@pytest.mark.parametrize("user", ["root", "user"])
@pytest.mark.parametrize("command", [["./fsdp-run", "experiments/lab.yaml"], ["./tests/run"]], ids=["lab", "tests"])
def test_both_commands_of_the_readme(machine, user, command):
    status, text = machine(user).calls(*command)
    assert status == 0, text


@pytest.mark.nightly
def test_an_interrupted_first_call_is_finished_by_the_second(machine):
    """Each moment is drawn from the time of a whole first call, which the test measures."""
    user = machine("user")
    anew = "rm -rf .deps .venv build && "
    timed = anew + "s=$(date +%s) && ./fsdp-run experiments/lab.yaml --only '1 GPU' && echo seconds $(($(date +%s) - s))"
    status, text = user.shell(timed)
    assert status == 0, text
    seconds = int(text.split()[-1])
    moments = random.Random(SEED)
    for _ in range(INTERRUPTIONS):
        user.shell("rm -rf .deps .venv build results")
        moment = moments.uniform(0.5, seconds)
        user.calls("./fsdp-run", "experiments/lab.yaml", "--only", "1 GPU", TIME=f"{moment:.1f}")
        status, text = user.calls("./fsdp-run", "experiments/lab.yaml", "--only", "1 GPU")
        assert status == 0, f"killed after {moment:.1f} s of {seconds} s (FSDP_TEST_SEED={SEED}):\n{text}"
        assert user.shell(WHAT_DEPS_LACK) == (0, "")
