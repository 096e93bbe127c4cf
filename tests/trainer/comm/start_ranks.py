"""Starts a program once for each rank, as torchrun does, but without PyTorch:

    start_ranks.py RANKS PROGRAM [ARGUMENT...]

If a rank fails, the others are killed, and the exit status is 1.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from ports import free_port  # noqa: E402

count, *command = sys.argv[1:]
common = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
ranks = {}
for rank in range(int(count)):
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    process = subprocess.Popen(command, env=os.environ | common | own)
    ranks[process.pid] = process
while ranks:
    ended, status = os.wait()
    ranks.pop(ended)
    if status != 0:
        for process in ranks.values():
            process.kill()
        sys.exit(1)
