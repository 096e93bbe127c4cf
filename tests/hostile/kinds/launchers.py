"""A rank started by hand, with odd variables of launchers."""

import json
import re
import socket

from tests.hostile import artefacts, odd, oracle, sandbox
from tests.hostile.case import Case

FAMILIES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                 "OMPI_COMM_WORLD_LOCAL_SIZE", "MASTER_PORT"),
    "PMI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MASTER_PORT"),
    "Slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE",
              "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID"),
}
NUMBERS = ["0", "1", "2", "3", "-1", "", "x", "1.0", " 1", "1 ", "+1", "0x1", "1e0", "2147483648", "1048577",
           "-9223372036854775809", "9" * 400, "٣", "1\n"]
VALUES = {
    # Only addresses of this host, and names that need no resolver.
    "MASTER_ADDR": ["127.0.0.1", "localhost", "::1", "", "127.0.0.999", "127.1", "\x1b", "0"],
    "SLURM_STEP_NODELIST": ["localhost", "localhost,localhost", "", "[", "l[]", "localhost["],
    "SLURM_STEP_TASKS_PER_NODE": ["1", "2", "1(x2)", "", "x", "2(x", "1(x0)", "0", "1,1", "1(x2147483648)"],
    "SLURM_STEP_ID": ["0", "batch", "x", ""],
}
RUN = f"""\
strategy: {{kind: ddp, ranks: %d}}
device: cpu
threads_per_rank: 1
train: {{steps: 4, warmup_steps_excluded: 0}}
batch: {{size_per_rank: 1}}
communication: {{rendezvous_timeout_s: 1}}
data: {{kind: tokens, train: tokens.npy, sequence_length: 16}}
model: {{config: {json.dumps(artefacts.MODEL)}}}
"""


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def attack(case: Case) -> None:
    """Starts one process. It runs as the only rank, finds no other rank, or names the wrong
    variable."""
    case.take("training/tokens.npy", "tokens.npy")
    case.write("run.yaml", RUN % case.random.choice([1, 2]))
    families = case.random.sample(list(FAMILIES), case.random.choice([1, 1, 1, 2, 3]))
    variables = {}
    for name in (name for family in families for name in FAMILIES[family]):
        usual = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "SLURM_STEP_NODELIST": "localhost",
                 "SLURM_JOB_ID": "77", "WORLD_SIZE": "2"}.get(name, "1" if "SIZE" in name or "N" in name[-6:] else "0")
        kind = case.random.random()
        if kind < 0.6:
            variables[name] = usual
        elif kind < 0.85:
            variables[name] = case.random.choice(VALUES.get(name, NUMBERS))
        elif kind < 0.9 and name not in VALUES:
            variables[name] = odd.text(case.random).replace("\x00", "")
    case.note(f"{variables!a}"[:600])
    ended = sandbox.run([case.programs.trainer, "--spec", "run.yaml"], case.work,
                        {**case.environment(), **variables}, limit_s=2 * case.programs.limit_s,
                        memory_limit=not case.programs.sanitized)
    for problem in oracle.problems(ended, oracle.TRAINER_STATUSES):
        case.fail(f"{problem}\n{ended.excerpt()}")
    said = ended.errors.decode("utf-8", "backslashreplace")
    if ended.status == 2:
        named = re.search(r"fsdp-train: (?:environment: )?'([\w.]+)': ", said)
        if not named or named[1] not in {*sum(FAMILIES.values(), ()), "strategy.ranks", "SLURM_NTASKS_PER_NODE"}:
            case.fail(f"names no variable\n{ended.excerpt()}")
    elif ended.status == 4:
        if "did not meet the others" not in said and "rendezvous on rank" not in said:
            case.fail(f"does not say that it met nobody\n{ended.excerpt()}")
    elif ended.status != 0 or "rank 0 of 1 on" not in said:
        case.fail(f"ends with {ended.status} as one of several ranks\n{ended.excerpt()}")
