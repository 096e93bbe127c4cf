"""Files that say which runs a results folder has, as other people and torn disks have changed
them. The index is made anew from them, or brought up to date."""

import json
import pathlib
import shutil

from tests.hostile import event_model, figures, odd
from tests.hostile.case import Case
from tests.hostile.kinds import databases
from tests.hostile.kinds.events import STEPS

NAMES = ("lists/*.json", "lists/*.json", "texts/*", "runs/*/*/run.json", "runs/*/*/run.json",
         "runs/*/*/attempt-*/launch.json", "runs/*/*/attempt-*/verdict.json",
         "runs/*/*/status.json", "slurm/*/job.json")
PATHS = ("..", "../../..", "/etc/passwd", "../precious", "runs/../..", "runs/trial", "", ".",
         "runs/trial/../../../precious", "lists", "slurm/job")


def attack(case: Case) -> None:
    results = case.take("sweep") / "results"
    add_status_and_job(results)
    for _ in range(case.random.choice([1, 1, 2, 5])):
        file = chosen_file(case, results)
        case.random.choice([Case.damage, change_values, change_values, change_values, replace,
                            put_elsewhere])(case, file)
    if case.random.random() < 0.6:
        (results / "results.sqlite").unlink()
    # Without lists, the folder is taken for one of an earlier version, and its files are written.
    may_change = () if (results / "lists").is_dir() else ("sweep/results",)
    for words in case.random.sample([["report"], ["report", "--format", "csv", "--all"], ["status", "--all"],
                                     ["explain", "1"], ["logs", "one"], ["prune", "--dry-run"]], 3):
        case.fsdp_run(*words, "--results", "sweep/results", may_change=may_change)
    check_finished(case, results, may_change)
    if case.random.random() < 0.4:
        case.random.choice([databases.prune, databases.run_again, databases.merge])(case, results)


def check_finished(case: Case, results: pathlib.Path, may_change: tuple[str, ...]) -> None:
    """Checks that the steps of each run that is shown as finished are those of its events."""
    if not figures.check_results(case, results, may_change=may_change):
        return
    for row in figures.comparison(results):
        if row["status"] != "finished":
            continue
        events = list((results / row["folder"] / f"attempt-{row['attempt']}").glob("events.*"))
        is_whole = all(event_model.is_whole(file.read_bytes(), STEPS) for file in events)
        if not is_whole or (row["steps"] or 0) != (STEPS if events else 0):
            case.fail(f"{row['folder']} is shown as finished with {row['steps']} steps")


def add_status_and_job(results: pathlib.Path) -> None:
    """Adds a status without an attempt, and a job that is over."""
    run = sorted(results.glob("runs/*/*/run.json"))[0]
    known = json.loads(run.read_text())
    (run.parent / "status.json").write_text(json.dumps(
        {"status": "cancelled", "reason": "", "attempts_begun": 1, "attempts_ended": 1}))
    job = results / "slurm/job/job.json"
    job.parent.mkdir(parents=True)
    task = {"task": 0, "run": known["id"], "over": True, "state": "", "reason": "",
            "node_list": "", "ends_unix_ms": None, "device_kind": ""}
    job.write_text(json.dumps(
        {"id": 1, "experiment": known["experiment"], "token": "token", "slurm_job": "7",
         "cluster": "", "mode": "per_run", "folder": "slurm/job", "submitted_unix_ms": 1,
         "tasks": [task]}))


def chosen_file(case: Case, results: pathlib.Path) -> pathlib.Path:
    files = []
    while not files:
        files = [file for file in sorted(results.glob(case.random.choice(NAMES)))
                 if odd.is_changeable(file)]
    return case.random.choice(files)


def change_values(case: Case, file: pathlib.Path) -> None:
    try:
        value = json.loads(file.read_bytes())
    except ValueError:  # a text, or damaged before
        return case.damage(file)
    holder = value
    while isinstance(holder, (dict, list)) and holder:
        key = case.random.choice(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
        if not isinstance(holder[key], (dict, list)) or case.random.random() < 0.2:
            holder[key] = case.random.choice(
                [odd.scalar(case.random), odd.integer(case.random), case.random.choice(PATHS)])
            case.note(f"{file.name}: {key} = {holder[key]!r}")
            break
        holder = holder[key]
    file.write_bytes(odd.json_of(case.random, value))
    return None


def replace(case: Case, file: pathlib.Path) -> None:
    what = case.random.choice(["folder", "loop", "dangling", "pipe", "unreadable", "gone", "link"])
    case.note(f"{file.name}: {what}")
    if what != "link":
        return odd.put(file, what)
    shutil.move(file, case.work / "moved")
    return file.symlink_to(case.work / "moved")


def put_elsewhere(case: Case, file: pathlib.Path) -> None:
    """Copies or moves the file's folder, or puts a file in its place."""
    folder = file.parent
    what = case.random.choice(["copied", "moved", "file", "gone"])
    case.note(f"{folder.name}: {what}")
    if what == "copied":
        shutil.copytree(folder, folder.with_name(folder.name + "-other"), dirs_exist_ok=True)
    elif what == "moved":
        folder.rename(folder.with_name(folder.name + "-other"))
    else:
        odd.put(folder, what)
