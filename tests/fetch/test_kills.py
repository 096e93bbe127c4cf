"""Kills a fetch at random moments. FSDP_TEST_KILLS is the number of kills, FSDP_TEST_SEED the
seed."""
import os
import random
import signal
import threading

from conftest import MODEL, model_files
from hub import Repository
from waiting import LIMIT_S

KILLS = int(os.environ.get("FSDP_TEST_KILLS", "10"))
SEED = int(os.environ.get("FSDP_TEST_SEED", "1"))


def bytes_there(workplace):
    """Returns the number of bytes of each blob so far. A child of the killed process may still
    rename a blob that it has completed."""
    while True:
        try:
            return {str(path).removesuffix(".incomplete"): path.stat().st_size
                    for path in workplace.cache.glob("*/blobs/*")}
        except FileNotFoundError:
            continue


def test_nothing_wrong_is_left_and_nothing_is_begun_anew(workplace):
    hub = workplace.hub
    random.seed(SEED)
    sizes = [2_000_000, 1_000_000, 700_000, 150_000, 90_000]
    files = {**model_files(), **{f"data-{number}.bin": random.randbytes(size) for number, size in enumerate(sizes)}}
    hub.repositories["datasets/org/files"] = Repository(
        {f"all/{path}": data for path, data in files.items()})
    hub.repositories[MODEL] = Repository(model_files())
    hub.chunk_bytes = 20_000
    workplace.write(**{"data.train": "hf://datasets/org/files/all"})
    all_bytes = sum(len(data) for name in ("datasets/org/files", MODEL) for path, data in
                    hub.repositories[name].files.items())
    asked = threading.Event()
    left = [0]

    def count(request):
        """Sets `asked` when enough chunks were sent for the next kill."""
        left[0] -= 1
        if left[0] <= 0:
            asked.set()

    hub.before_chunk = count
    chunks = all_bytes // hub.chunk_bytes
    there = {}
    for _ in range(KILLS):
        asked.clear()
        left[0] = random.randrange(1, max(2, 3 * chunks // KILLS))
        process = workplace.start_fetch()
        ended = threading.Thread(target=lambda: (process.wait(), asked.set()))
        ended.start()
        asked.wait(LIMIT_S)
        process.send_signal(signal.SIGKILL)
        ended.join()
        process.communicate()
        for name in (MODEL, "datasets/org/files"):
            workplace.check_nothing_wrong(name)
        before, there = there, bytes_there(workplace)
        assert all(there[blob] >= count for blob, count in before.items())
    hub.before_chunk = None
    workplace.fetch_whole(model_files())
    workplace.check_snapshot(hub.repositories["datasets/org/files"].files, "datasets/org/files")
