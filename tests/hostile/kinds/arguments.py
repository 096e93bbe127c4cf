"""Command lines: odd options and values, repeated, contradictory, huge; odd places to write to."""

import os
import stat
import subprocess

from tests.hostile import odd, oracle
from tests.hostile.case import Case

COMMANDS = {
    "run": [
        "--set", "--only", "--profile", "--repeats", "--gpus", "--launcher", "--rerun", "--dry-run",
        "--per-rank", "--max-parallel", "--time-limit", "--quiet", "--json", "--detach", "--follow"
    ],
    "check": ["--set", "--only", "--profile", "--gpus", "--launcher"],
    "report": [
        "--format", "--columns", "--sort", "--where", "--baseline", "--group", "--reference",
        "--since", "--per-run", "--per-series", "--per-rank"
    ],
    "status": ["--all"],
    "logs": ["--rank", "--attempt"],
    "explain": [],
    "diff": [],
    "doctor": [],
    "schema": [],
    "export": ["--format", "--force"],
    "merge": [],
    "cancel": [],
    "completion": [],
    "complete": [],
    "prune": [
        "--older-than", "--not-current", "--checkpoints", "--keep-last", "--dry-run"
    ],
}
FLAGS = {"--rerun", "--dry-run", "--per-rank", "--quiet", "--json", "--per-run", "--detach",
         "--follow", "--per-series", "--all", "--force", "--not-current", "--checkpoints"}
SENSIBLE = {
    "--format": [
        "table", "markdown", "csv", "json", "latex", "html", "jsonl", "parquet", "tensorboard", "wandb", "mlflow",
        "trackio"
    ],
    "--columns": [
        "point,loss_last", "+gpu_hours", "point", "point,point", "help", "", ",", "+", "-"
    ],
    "--sort": ["loss_last", "-loss_last", "-", "point", "--point"],
    "--where": [
        "ranks = 2", "loss_last < 1", "point ~ d", "ranks = ", "= 2", "ranks", "ranks = x",
        "loss_last > 1e999"
    ],
    "--baseline": ["one", "ddp", "nobody"],
    "--group": ["ranks", "point", "no_column"],
    "--reference": ["reference.yaml", "sweep/experiment.yaml", "nothing"],
    "--since": ["1d", "2026-01-01", "0s", "1e9d"],
    "--set": [
        "train.steps=2", "train.steps=", "=1", "train.steps", "train.seed=7", "a.b.c=1",
        "train.steps=2=3", "strategy={kind: ddp, ranks: 2}", "base.train.steps=2",
        "slurm.environment=[A=b]"
    ],
    "--only": ["one", "ddp", "nobody"],
    "--profile": ["auto", "none"],
    "--repeats": ["2", "0", "-1", "x", "99999999999"],
    "--gpus": ["0", "0,1", "all", ",", "0,0", "-1"],
    "--launcher": ["local", "Local"],
    "--max-parallel": ["1", "2", "0", "-1", "99999999999"],
    "--time-limit": ["10s", "1m", "0s", "-1s", "1e400s", "9223372036854775807h", "10", "s"],
    "--rank": ["0", "1", "-1", "99"],
    "--attempt": ["1", "0", "2", "-5"],
    "--keep-last": ["1", "0", "-1"],
    "--older-than": ["1d", "0s", "99999999999999d", "2026-13-45"],
}
POSITIONALS = ["one", "trial", "trial/one", "1", "2", "0", "-1", "sweep/experiment.yaml", "sweep",
               "99", "nobody", "sweep/results", "x=sweep/results", "=sweep/results", "x=", "bash",
               "zsh", "fish"]
REFERENCE = "experiment: trial\nfigures: {}\n"


def attack(case: Case) -> None:
    case.take("sweep")
    case.write("reference.yaml", REFERENCE)
    case.random.choice(
        [odd_words, odd_words, odd_words, odd_output, odd_output, odd_results, odd_set])(case)


def value(case: Case, option: str) -> str:
    if case.random.random() < 0.6:
        return case.random.choice(SENSIBLE.get(option, ["x"]))
    text = odd.text(case.random) if case.random.random() < 0.5 else str(odd.scalar(case.random))
    return (text.replace("\x00", "0") if case.random.random() < 0.97 else "9" * 100_000)


def words(case: Case, command: str) -> list[str | bytes]:
    random = case.random
    given: list[str | bytes] = []
    count = {"diff": 2, "run": 1, "check": 1, "logs": 1,
             "explain": 1}.get(command, random.choice([0, 0, 1, 2]))
    for _ in range(count):
        usual = "sweep/experiment.yaml" if command in ("run",
                                                       "check") else random.choice(POSITIONALS)
        given.append(usual if random.random() < 0.8 else odd.text(random).replace("\x00", ""))
    options = COMMANDS[command]
    for option in random.choices(options, k=random.choice([0, 1, 1, 2, 3])) if options else []:
        if option in FLAGS:
            given.append(option)
        elif random.random() < 0.2:
            given.append(f"{option}={value(case, option)}")
        else:
            given += [option, value(case, option)]
    if random.random() < 0.2:
        given.insert(random.randrange(len(given) + 1), random.choice(["--", "-", "--nonsense", "-h",
                                                                      "--set=", "---", "--results",
                                                                      b"\xff\xfe", "", "--version",
                                                                      "--format=json", "-x" * 500,
                                                                      "--=", "--help=1", "@file"]))
    return given


def odd_words(case: Case) -> None:
    command = case.random.choice(list(COMMANDS))
    given = words(case, command)
    case.note(f"{command} {given!a}"[:300])
    if command == "run":
        given += ["--trainer", case.programs.stub_trainer]
    elif command == "export":
        given += ["--to", "exported"]
    may_change = {"run": ("results",), "merge": ("results",), "export": ("exported",),
                  "prune": ("sweep/results",)}.get(command, ())
    if command not in ("run", "merge", "check", "schema", "completion", "complete"):
        given += ["--results", "sweep/results"]
    ended = case.fsdp_run(command, *given, may_change=may_change)
    check_form(case, ended, given)


def check_form(case: Case, ended, given: list) -> None:
    """Checks that output in JSON or CSV is well formed."""
    if not ended.ok or "--help" in given or "-h" in given:
        return
    try:
        if ended.output.startswith(b'{"title"'):
            oracle.strict_json(ended.output)
        elif ended.output.startswith(b'{"kind"'):
            for line in ended.output.splitlines():
                oracle.strict_json(line)
        elif "csv" in given and "report" in ended.command[1:2]:
            oracle.csv_rows(ended.output)
    except ValueError as error:
        case.fail(f"not of its form: {error}\n{ended.excerpt()}")


def odd_output(case: Case) -> None:
    """`--output` names something that is not simply a new file."""
    target = case.work / "target"
    kind = case.random.choice(["file", "mode", "symlink", "dangling", "folder", "pipe", "missing",
                               "in read-only", "neighbour", "loop", "hard link", "long"])
    case.note(f"--output: {kind}")
    given, changes, reader = "target", ["target"], None
    if kind in ("symlink", "dangling", "hard link"):
        changes = ["linked"]
        if kind != "dangling":
            case.write("linked", "old\n")
    match kind:
        case "file" | "mode":
            target.write_text("old\n")
            target.chmod(0o644 if kind == "file" else case.random.choice([0o600, 0o640, 0o755]))
        case "symlink" | "dangling":
            target.symlink_to("linked")
        case "hard link":
            os.link(case.work / "linked", target)
            changes += ["target"]
        case "folder" | "pipe" | "loop":
            odd.put(target, kind)
            if kind != "loop":
                changes = []
            if kind == "pipe":
                reader = subprocess.Popen(["cat", target], stdout=subprocess.DEVNULL, cwd="/")
        case "missing":
            given = "no/such/folder/target"
        case "in read-only":
            (case.work / "closed").mkdir(mode=0o555)
            given = "closed/target"
        case "neighbour":
            for name in ("target.new", ".target.new", "target.tmp", "target~"):
                case.write(name, "precious\n")
        case "long":
            given = case.random.choice(["t" * 300, "d/" * 3000 + "x", "t" * 250])
            changes = [given] if len(given) == 250 else []
    form = case.random.choice(["table", "markdown", "csv", "json", "latex", "html"])
    mode = target.stat().st_mode if kind in ("file", "mode") else None
    ended = case.fsdp_run("report", "--format", form, "--output", given, "--results",
                          "sweep/results", may_change=tuple(changes))
    if mode is not None and target.stat().st_mode != mode:
        case.fail(f"the mode was {stat.filemode(mode)}, is {stat.filemode(target.stat().st_mode)}")
    if ended.ok and form == "json" and kind in ("file", "mode", "symlink", "neighbour",
                                                "hard link"):
        oracle.strict_json(target.read_bytes())
    if reader is not None:
        reader.kill()
        reader.wait()


def odd_results(case: Case) -> None:
    """`--results` names something that is no results folder."""
    results = case.work / "odd"
    kind = case.random.choice(
        ["file", "loop", "read-only", "missing", "long", "empty", "unreadable", "dangling"])
    command = case.random.choice([["report"], ["status"], ["prune", "--yes"],
                                  ["export", "--to", "x"], ["explain", "1"],
                                  ["merge", "sweep/results"], ["doctor"], ["run"]])
    case.note(f"--results: {kind}, {command[0]}")
    given = "odd"
    if kind in ("file", "loop", "dangling"):
        odd.put(results, kind, b"no folder\n")
    elif kind in ("read-only", "unreadable", "empty"):
        results.mkdir(mode={"read-only": 0o555, "unreadable": 0, "empty": 0o755}[kind])
    elif kind == "long":
        given = case.random.choice(
            ["r" * 300, "r" * 200, "/".join(["d" * 100] * 30), "/".join(["d" * 200] * 10)])
    writes = command[0] in ("merge", "run")
    changes = (given.split("/")[0], "nowhere") if writes else ()
    if command[0] == "run":
        command = ["run", "sweep/experiment.yaml", "--only", "one", "--trainer",
                   case.programs.stub_trainer]
    case.fsdp_run(*command, "--results", given, may_change=changes)


def odd_set(case: Case) -> None:
    """check and --dry-run accept the same values of `--set`."""
    from tests.hostile.kinds import experiments
    given = []
    for _ in range(case.random.choice([1, 1, 2])):
        key = case.random.choice(list(experiments.SENSIBLE))
        text = case.random.choice([
            str(odd.scalar(case.random)),
            odd.text(case.random),
            str(case.random.choice(experiments.SENSIBLE[key]))
        ]).replace("\x00", "")
        given += ["--set", f"{key}={text}"]
    case.note(f"{given!a}"[:300])
    case.check_and_plan("sweep/experiment.yaml", *given)
