"""File systems that only the programs of one case see, in a mount namespace of an ordinary user."""

import os
import pathlib
import subprocess

SHELL = ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "sh"]
ENTER = ["nsenter", "--user", "--mount", "--preserve-credentials", "--target"]


class CannotMount(Exception):
    """This host does not let an ordinary user make a namespace."""


class Mounts:
    """A namespace that lasts until `close`, with a shell that may mount in it."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.shell = subprocess.Popen(SHELL, cwd="/", text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT)
        try:
            self.call("mount -t tmpfs none /mnt")
        except OSError as error:
            self.close()
            raise CannotMount(str(error)) from error

    def call(self, script: str) -> None:
        """Runs a script in the namespace's shell. `$work` is `folder`. The script must not change
        to this folder, because programs that work there count as left behind. Raises OSError if it
        fails."""
        assert self.shell.stdin and self.shell.stdout
        try:
            self.shell.stdin.write(f"work={self.folder}; if ({script}); then echo; echo done; else echo; echo failed; fi\n")
            self.shell.stdin.flush()
        except BrokenPipeError:
            pass
        said = []
        for line in self.shell.stdout:
            said.append(line)
            if line in ("done\n", "failed\n"):
                break
        if said[-1:] != ["done\n"]:
            raise OSError(f"{script}: {''.join(said)!a}")

    def close(self) -> None:
        self.shell.kill()
        self.shell.communicate()

    def inside(self, command: list[str | bytes]) -> list[str | bytes]:
        """Returns the words that run `command` in the namespace and in `folder`, without the right
        to mount."""
        return [*ENTER, str(self.shell.pid), "sh", "-c", 'cd "$0" && exec "$@"', str(self.folder), *command]

    def path(self, name: str) -> pathlib.Path:
        """Returns the path by which this process reaches the namespace's `folder`/`name`."""
        return pathlib.Path(f"/proc/{self.shell.pid}/root{os.path.abspath(self.folder / name)}")
