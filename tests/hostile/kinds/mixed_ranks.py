"""Ranks started by hand: with wrong variables of launchers, or with one rank that runs something
else. Every rank refuses a difference and names it. Without a difference, all ranks finish with
equal losses."""

import concurrent.futures
import json
import os
import re
import shutil
import socket

from tests.hostile import odd, oracle, sandbox
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
# Sections by which one rank's run.yaml may differ.
OTHER_KEYS = {
    "optimizer.learning_rate": ["optimizer: {learning_rate: 0.1}", "optimizer: {learning_rate: 2.0000000000000001e-5}"],
    "optimizer.kind": ["optimizer: {kind: sgd}"],
    "optimizer.beta2": ["optimizer: {beta2: 0.9}"],
    "optimizer.gradient_clip_norm": ["optimizer: {gradient_clip_norm: 1}"],
    "schedule.kind": ["schedule: {kind: cosine}"],
    "train.seed": ["train: {steps: 4, warmup_steps_excluded: 0, seed: 2}"],
    "train.steps": ["train: {steps: 5, warmup_steps_excluded: 0}"],
    "train.deterministic": ["train: {steps: 4, warmup_steps_excluded: 0, deterministic: true}"],
    "batch.size_per_rank": ["batch: {size_per_rank: 2}"],
    "batch.total": ["batch: {size_per_rank: 1, gradient_accumulation_steps: 2}"],
    "precision.kind": ["precision: bf16_mixed", "precision: bf16_true"],
    "activation_checkpointing.every": ["activation_checkpointing: {every: 1}"],
    "data.shuffle": ["data: {kind: tokens, train: ../TOKENS, sequence_length: 16, shuffle: false}"],
    "checkpoint.every_steps": ["checkpoint: {every_steps: 3}"],
    "evaluation.every_steps": ["evaluation: {every_steps: 2, fraction: 0.2}"],
    "communication.timeout_s": ["communication: {timeout_s: 77, rendezvous_timeout_s: 20}"],
    "threads_per_rank": ["threads_per_rank: 2"],
    "memory_limit_gib": ["memory_limit_gib: 1"],
    "environment": ["environment: ['A=b']"],
    "bind": ["bind: none"],
    "wandb.name": ["wandb: {name: other}"],
}


def attack(case: Case) -> None:
    case.random.choice([wrong_environment, other_run, other_run])(case)


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def describe(case: Case, rank: int, ranks: int, sections: str = "", tokens: str = "tokens.npy") -> None:
    """Writes the run.yaml of a rank in its own folder."""
    model = ("{num_hidden_layers: 1, hidden_size: 8, intermediate_size: 16, num_attention_heads: 2, "
             "num_key_value_heads: 1, vocab_size: 1024}")
    usual = (f"strategy: {{kind: ddp, ranks: {ranks}}}\ndevice: cpu\nthreads_per_rank: 1\n"
             "train: {steps: 4, warmup_steps_excluded: 0}\nbatch: {size_per_rank: 1}\n"
             "communication: {rendezvous_timeout_s: 20}\n"
             f"data: {{kind: tokens, train: ../TOKENS, sequence_length: 16}}\nmodel: {{config: {model}}}\n" + sections)
    lines = {line.split(":")[0]: line for line in usual.replace("TOKENS", tokens).splitlines()}
    case.write(f"rank{rank}/run.yaml", "\n".join(lines.values()) + "\n")


def train(case: Case, rank: int, variables: dict[str, str], *arguments: str) -> sandbox.Ended:
    ended = sandbox.run([case.programs.trainer, "--spec", "run.yaml", *arguments],
                        case.work / f"rank{rank}", {**case.environment(), **variables},
                        limit_s=2 * case.programs.limit_s, memory_limit=not case.programs.sanitized)
    for problem in oracle.problems(ended, oracle.TRAINER_STATUSES):
        case.fail(f"rank {rank}: {problem}\n{ended.excerpt()}")
    return ended


def wrong_environment(case: Case) -> None:
    """Starts one process. It runs as the only rank, finds no other rank, or names the wrong
    variable."""
    case.take("training/tokens.npy", "tokens.npy")
    describe(case, 0, case.random.choice([1, 2]), "communication: {rendezvous_timeout_s: 1}")
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
    ended = train(case, 0, variables)
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


def other_run(case: Case) -> None:
    """Starts several ranks. One rank may have another key, file or argument."""
    ranks = case.random.choice([2, 2, 2, 3, 4])
    one = case.random.randrange(ranks)
    tokens = case.take("training/tokens.npy", "tokens.npy")
    for rank in range(ranks):
        describe(case, rank, ranks)
    arguments = {rank: () for rank in range(ranks)}
    key = case.random.choice([None, "same", "data.train", "data.train", "--attempt", *OTHER_KEYS, *OTHER_KEYS])
    if key in OTHER_KEYS:
        describe(case, one, ranks, case.random.choice(OTHER_KEYS[key]))
    elif key == "--attempt":
        arguments[one] = ("--attempt", case.random.choice(["1", "7"]))
    elif key is not None:
        shutil.copyfile(tokens, case.work / "other.npy")
        describe(case, one, ranks, tokens="other.npy")
        if key == "same":
            os.utime(case.work / "other.npy", (1, 1))
        else:
            times = tokens.stat()  # the copy keeps its size and times
            contents = bytearray(tokens.read_bytes())
            contents[128 + 4 * case.random.randrange((len(contents) - 128) // 4)] ^= 1
            case.write("other.npy", bytes(contents))
            os.utime(case.work / "other.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
    case.note(f"{ranks} ranks; rank {one} has another {key}")
    port = free_port()
    with concurrent.futures.ThreadPoolExecutor(ranks) as starts:
        ended = list(starts.map(
            lambda rank: train(case, rank, {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                                            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, *arguments[rank]),
            range(ranks)))
    differs = key not in (None, "same")
    for rank, end in enumerate(ended):
        if end.status != (2 if differs else 0):
            case.fail(f"rank {rank} ends with {end.status} where rank {one} has another {key}\n{end.excerpt()}")
        elif differs and f"fsdp-train: '{key}': rank ".encode() not in end.errors:
            case.fail(f"rank {rank} does not name {key}\n{end.excerpt()}")
    if not differs:
        check_equal_losses(case, ranks)


def check_equal_losses(case: Case, ranks: int) -> None:
    losses = set()
    for rank in range(ranks):
        events = (case.work / f"rank{rank}" / "attempt-1" / f"events.rank{rank}.jsonl").read_text().splitlines()
        losses.add(tuple(event["loss"] for event in map(json.loads, events) if event["kind"] == "step"))
    if len(losses) != 1 or len(losses.pop()) != 4:
        case.fail("ranks that ran the same thing have other losses")
