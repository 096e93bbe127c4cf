"""Hides files of this host from one command, by mounts in its own namespace. Needs root."""
import shlex
import subprocess

import pytest


def command_that_hides(paths, replaced=()):
    """Returns the words to put before a command. For that command the `paths` are empty, and the
    first file of each pair in `replaced` has the contents of the second."""
    empty_folder = 'empty=$(mktemp -d)'
    mounts = [f'if [ -d {path} ]; then mount --bind "$empty" {path}; '
              f'else mount --bind /dev/null {path}; fi' for path in map(shlex.quote, map(str, paths))]
    mounts += [f"mount --bind {shlex.quote(str(other))} {shlex.quote(str(file))}"
               for file, other in replaced]
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
              "\n".join([empty_folder, *mounts, 'exec "$@"']), "-"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no mount namespace may be made here: {tried.stderr.strip()}")
    return prefix
