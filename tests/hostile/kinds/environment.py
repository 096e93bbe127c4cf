"""The environment: odd variables, closed streams, small limits. Finished runs have the usual
figures."""

import resource

from tests.hostile import figures, odd
from tests.hostile.case import Case

VARIABLES = {
    "RANK": ["7", "-1", "x", ""],
    "WORLD_SIZE": ["9", "0", "x"],
    "LOCAL_RANK": ["5", "-2", "x"],
    "MASTER_ADDR": ["10.255.255.1", "", "\x1b"],
    "MASTER_PORT": ["1", "99999", "x"],
    "TORCHELASTIC_RUN_ID": ["x"],
    "TORCHELASTIC_USE_AGENT_STORE": ["True"],
    "GROUP_RANK": ["3"],
    "ROLE_RANK": ["2"],
    "LOCAL_WORLD_SIZE": ["8"],
    "OMPI_COMM_WORLD_RANK": ["3"],
    "PMI_RANK": ["2"],
    "SLURM_PROCID": ["4"],
    "SLURM_NTASKS": ["8"],
    "SLURM_JOB_ID": ["77"],
    "SLURM_LOCALID": ["1"],
    "SLURM_NODEID": ["x"],
    "OMP_NUM_THREADS": ["0", "-1", "x", "", "4096", "1e9"],
    "MKL_NUM_THREADS": ["x", "0"],
    "MKL_VERBOSE": ["1"],
    "HOME": ["", "/no/such/home", "relative"],
    "TERM": ["", "dumb", "xterm-\x1b", "no-such-terminal"],
    "COLUMNS": ["0", "-1", "1000000000", "x", "1"],
    "LINES": ["0", "-1"],
    "LC_ALL": ["de_DE.UTF-8", "xx_XX", "C", "tr_TR.UTF-8", "\x1b"],
    "LANG": ["", "ja_JP.SJIS"],
    "TZ": ["", "No/Where", ":/dev/null/x", "UTC+99", "\x1b", "x" * 5000],
    "PATH": ["", "/no", ".", ":" * 1000],
    "TMPDIR": ["/no/such", "", "relative"],
    "LD_BIND_NOW": ["1"],
    "CUDA_VISIBLE_DEVICES": ["", "-1", "99", "x"],
    "NCCL_DEBUG": ["INFO"],
    "GLOO_SOCKET_IFNAME": ["no_such"],
    "GIT_DIR": ["/no/such", "."],
    "GIT_CONFIG_COUNT": ["x"],
    "GIT_TRACE": ["1"],
    "WANDB_PROJECT": ["\x1b[2J"],
    "WANDB_API_KEY": ["secret"],
    "NO_COLOR": ["1"],
    "CLICOLOR_FORCE": ["1"],
    "SQLITE_TMPDIR": ["/no"],
    "CUDA_TOKEN": ["secret"],
    "MALLOC_PERTURB_": ["85"],
    "MALLOC_ARENA_MAX": ["1"],
    "PWD": ["/", "x"],
    "SHELL": [""],
    "NCCL_ODD": ["\x1b[2J\n\x9b", "x" * 100_000],
    "XDG_CONFIG_HOME": ["relative"],
    "POSIXLY_CORRECT": ["1"],
}
COMMANDS = (["report"], ["report", "--format",
                         "html"], ["status", "--all"], ["explain", "broken"], ["logs", "one"],
            ["doctor"], ["diff", "1", "2"], ["prune", "--dry-run"], ["export", "--to", "exported"])


def attack(case: Case) -> None:
    case.take("sweep")
    case.random.choice(
        [odd_variables, odd_variables, odd_variables, closed_streams, small_limits, real_run])(case)


def variables(case: Case) -> dict[str, str]:
    chosen = {}
    for name in case.random.sample(list(VARIABLES), case.random.choice([1, 1, 2, 5, 20])):
        value = case.random.choice(VARIABLES[name]) if case.random.random() < 0.85 else odd.text(
            case.random)
        chosen[name] = value.replace("\x00", "")
    case.note(f"{chosen!a}"[:400])
    return chosen


def run_or_read(case: Case, run_share: float, **options) -> None:
    """Runs two ranks, whose results must be as usual if the run finishes, or reads results."""
    if case.random.random() < run_share:
        if case.train("sweep/experiment.yaml", "--only", "ddp", **options).ok:
            judge(case, "sweep", "ddp")
    else:
        read(case, **options)


def read(case: Case, **options) -> None:
    command = case.random.choice(COMMANDS)
    case.fsdp_run(*command, "--results", "sweep/results", **options,
                  may_change=("exported",) if command[0] == "export" else ())


def judge(case: Case, usual_run: str, point: str) -> None:
    results = case.work / "results"
    figures.check_results(case, results)
    row, usual = (figures.row_of(place, point) for place in (results, case.artefacts / usual_run / "results"))
    for name in ("steps", "loss_first", "loss_last", "hash8", "status"):
        is_loss = isinstance(row[name], float)
        if abs(row[name] - usual[name]) > 1e-5 if is_loss else row[name] != usual[name]:
            case.fail(f"{name} is {row[name]}, usually {usual[name]}")


def odd_variables(case: Case) -> None:
    run_or_read(case, 0.5, environment=variables(case))


def closed_streams(case: Case) -> None:
    closed = case.random.choice([(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2), (0, 2)])
    case.note(f"closed: {closed}")
    if case.random.random() < 0.5:
        read(case, closed=closed, mute=2 in closed)
        return
    case.train("sweep/experiment.yaml", "--only", "ddp", closed=closed, mute=2 in closed)
    results = case.work / "results"
    if (results / "results.sqlite").exists():
        judge(case, "sweep", "ddp")
    for lock in results.glob(".*.lock"):
        if b"ddp" in lock.read_bytes():
            case.fail(f"progress in {lock.name}: {lock.read_bytes()[:200]!a}")


def small_limits(case: Case) -> None:
    kind, values = case.random.choice([(resource.RLIMIT_NOFILE, [3, 5, 8, 12, 20]),
                                       (resource.RLIMIT_FSIZE, [0, 1000, 10_000, 100_000]),
                                       (resource.RLIMIT_STACK, [1 << 17, 1 << 20]),
                                       (resource.RLIMIT_NPROC, [0, 1]),
                                       (resource.RLIMIT_AS, [64 << 20, 200 << 20]),
                                       (resource.RLIMIT_DATA, [1 << 20, 8 << 20])])
    if case.programs.sanitized and kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA,
                                            resource.RLIMIT_STACK, resource.RLIMIT_NOFILE):
        return
    value = case.random.choice(values)
    case.note(f"limit {kind}: {value}")
    # The dynamic linker exits with 127 if there is no room for the libraries. If the size of files is
    # limited, messages have no room, because they go to a file.
    run_or_read(case, 0.6, limits={kind: value}, statuses=(0, 1, 2, 127, 130),
                mute=kind == resource.RLIMIT_FSIZE)


def real_run(case: Case) -> None:
    """Runs the real trainer with variables that torch, gloo and launchers read."""
    if case.random.random() < 0.6:
        odd_variables(case)
        return
    case.take_training()
    chosen = variables(case)
    point = case.random.choice(["full", "sharded"])
    case.train("experiment.yaml", "--only", point, "--set", "checkpoint.every_steps=null",
               stub=False, environment=chosen)
    for row in figures.check_results(case, case.work / "results"):
        usual = figures.row_of(case.artefacts / "training/results", point)
        if row["status"] == "finished" and abs(row["loss_last"] - usual["loss_last"]) > 1e-5:
            case.fail(f"the loss is {row['loss_last']}, usually {usual['loss_last']}")
