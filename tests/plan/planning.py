"""Asks `fsdp-train --plan`."""

import json
from pathlib import Path

import fork_server
import yaml


def request_of(spec: dict, results: Path, memory_bytes: int = 0, compute_capability: int = 0) -> dict:
    """Returns a request for a GPU of this compute capability, or for the CPU if it is 0."""
    kind = "cuda" if compute_capability else "cpu"
    device = {"kind": kind, "memory_bytes": memory_bytes, "context_bytes": 0,
              "compute_capability": compute_capability, "name": ""}
    host = {"memory_bytes": 0, "ranks": spec["strategy"]["ranks"]}
    return {"specification": yaml.safe_dump(spec | {"device": kind}), "device": device, "host": host,
            "results": str(results), "timeline": False, "trace": False}


def plans(trainer: Path, requests: list[dict]) -> list[dict]:
    """Returns a plan for each request. Fails if a run cannot be planned."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    answers = [json.loads(line) for line in fork_server.run([trainer, "--plan"], lines).splitlines()]
    for request, answer in zip(requests, answers, strict=True):
        assert answer["plan"], (answer["error"], request)
    return [answer["plan"] for answer in answers]
