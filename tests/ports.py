"""Ports for tests."""

import random
import socket
from collections import deque
from contextlib import suppress

own_ports = deque(maxlen=50)  # of the last runs; each socket's name keeps other tests from its port


def free_port() -> int:
    """Returns a free port below the ports of jobs and of outgoing connections, which could take it."""
    while True:
        port = random.randint(10000, 19999)
        own = socket.socket(socket.AF_UNIX)
        with socket.socket() as listener, suppress(OSError):
            own.bind(f"\0fsdp-test-port-{port}")
            listener.bind(("", port))
            own_ports.append(own)
            return port
