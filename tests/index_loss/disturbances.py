"""What happens to results.sqlite."""
import contextlib
import os
import sqlite3

PAGE_BYTES = 4096
# The first six differ most, because short tests stop there.
KINDS = ("deleted", "middle overwritten", "older copy", "locked", "version 99", "cut short",
         "read-only", "header overwritten", "emptied", "version 1")
LASTING = ("locked", "read-only")  # a call may be refused meanwhile


class Disturbance:
    """`choice` is a random.Random."""

    def __init__(self, kind, file, choice):
        self.kind, self.file, self.choice = kind, file, choice
        self.copy = file.with_name("older.sqlite")
        self._lock = None

    def keep_copy(self):
        """Copies the index while nobody writes to it. Returns false if that is impossible now."""
        if not self.file.exists() or self.file.stat().st_size == 0:
            return False
        with contextlib.closing(self._connection()) as database:
            with contextlib.closing(sqlite3.connect(self.copy)) as copy:
                database.backup(copy)
        return True

    def begin(self):
        """Returns false if that is impossible now, because there is no index yet, or because it is
        not known as one: there are no lists."""
        is_known = self.file.exists() and self.file.with_name("lists").is_dir()
        if not is_known or self.file.stat().st_size < 2 * PAGE_BYTES:
            return False
        size = self.file.stat().st_size
        match self.kind:
            case "deleted":
                self.file.unlink()
            case "header overwritten":
                self._overwrite(0, 100)
            case "middle overwritten":
                first = self.choice.randrange(1, size // PAGE_BYTES)
                self._overwrite(first * PAGE_BYTES, self.choice.randint(1, 4) * PAGE_BYTES)
            case "cut short":
                os.truncate(self.file, self.choice.randrange(1, size))
            case "emptied":
                os.truncate(self.file, 0)
            case "version 99" | "version 1":
                with contextlib.closing(self._connection()) as database:
                    database.execute(f"pragma user_version = {self.kind.split()[1]}")
            case "older copy":
                self.copy.replace(self.file)
            case "locked":
                self._lock = self._connection()
                self._lock.execute("begin exclusive")
            case "read-only":
                self.file.chmod(0o444)
        return True

    def end(self):
        if self._lock is not None:
            self._lock.close()
        if self.kind == "read-only" and self.file.exists():
            self.file.chmod(0o644)

    def _overwrite(self, offset, count):
        with self.file.open("r+b") as file:
            file.seek(offset)
            file.write(self.choice.randbytes(min(count, self.file.stat().st_size - offset)))

    def _connection(self):
        return sqlite3.connect(self.file, timeout=60, isolation_level=None)
