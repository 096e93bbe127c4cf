"""Runs resume from damaged, incomplete or foreign checkpoints. A run then has the losses of a run
that was never stopped, or fails and says why."""

import json
import pathlib
import shutil

from tests.hostile import figures, odd
from tests.hostile.case import Case


def attack(case: Case) -> None:
    training = case.take("training")
    kind = case.random.choice(["full", "sharded"])
    checkpoint = case.take(kind, "checkpoint")
    case.note(kind)
    for _ in range(case.random.choice([1, 1, 1, 2])):
        case.random.choice(MUTATIONS)(case, checkpoint)
    damaged = differs_unseen(case.artefacts / kind, checkpoint)
    if case.random.random() < 0.5:
        point = kind
        results = continue_by_itself(case, training, point, checkpoint)
    else:
        point = case.random.choice(["full", "sharded"])
        results = case.work / "results"
        case.train("training/experiment.yaml", "--only", point, "--set", "resume=checkpoint",
                   stub=False)
    for row in figures.check_results(case, results):
        if row["point"] == point and row["status"] == "finished":
            judge(case, row, damaged)


def continue_by_itself(case: Case, training: pathlib.Path, point: str,
                       checkpoint: pathlib.Path) -> pathlib.Path:
    """Makes the checkpoint the newest of an interrupted run, which resumes by itself. The run must
    then have a second attempt."""
    results = training / "results"
    (results / "results.sqlite").unlink()
    for verdict in results.glob("runs/*/*/attempt-*/verdict.json"):
        verdict.write_text(json.dumps({**json.loads(verdict.read_text()), "status": "interrupted"}))
    [own] = results.glob(f"runs/training/*{point}-*/checkpoints")
    shutil.rmtree(own)
    own.mkdir()
    shutil.move(checkpoint, own / "step-2")
    case.note("resume: auto")
    case.train("training/experiment.yaml", "--only", point, stub=False, results="training/results")
    if figures.row_of(results, point)["attempt"] != 2:
        case.fail("the interrupted run did not go on")
    return results


def differs_unseen(original: pathlib.Path, checkpoint: pathlib.Path) -> str:
    """Returns the names of changed files if trainer.json is unchanged, and otherwise ""."""
    names = sorted(file.name for file in original.iterdir())
    before, after = ({name: (folder / name).read_bytes() if (folder / name).is_file() else None
                      for name in names} for folder in (original, checkpoint))
    if before["trainer.json"] != after["trainer.json"]:
        return ""
    return ", ".join(name for name in before if before[name] != after[name])


def judge(case: Case, row: dict, damaged: str) -> None:
    """Checks that a finished run has trained all steps, and has the undisturbed loss."""
    expected = figures.row_of(case.artefacts / "training/results", row["point"])
    if row["resumed_from_step"] not in (0, 2) or row["steps"] + row["resumed_from_step"] != 4:
        case.fail(f"{row['steps']} steps, resumed from step {row['resumed_from_step']}")
    if abs(row["loss_last"] - expected["loss_last"]) > 1e-5:
        case.fail(f"the loss is {row['loss_last']}, of the undisturbed run {expected['loss_last']}")
    if damaged and row["resumed_from_step"] == 2:
        case.fail(f"resumed from damaged files: {damaged}")


def a_file(case: Case, checkpoint: pathlib.Path) -> pathlib.Path:
    return case.random.choice(sorted(filter(odd.is_changeable, checkpoint.rglob("*"))))


def damage(case: Case, checkpoint: pathlib.Path) -> None:
    file = a_file(case, checkpoint)
    if case.random.random() < 0.5:
        return case.damage(file)
    contents = bytearray(file.read_bytes() or b"\0")
    at = case.random.randrange(len(contents))
    contents[at] ^= 1 << case.random.randrange(8)
    file.write_bytes(contents)
    case.note(f"{file.name}: a bit flipped in byte {at}")
    return None


def replace_file(case: Case, checkpoint: pathlib.Path) -> None:
    file = a_file(case, checkpoint)
    if case.replace(file, ["gone", "gone", "folder", "loop", "dangling", "other"]) == "other":
        shutil.copyfile(case.artefacts / "full" / "config.json", file)


def change_state(case: Case, checkpoint: pathlib.Path) -> None:
    """Gives one member of trainer.json an odd value."""
    file = checkpoint / "trainer.json"
    if not odd.is_changeable(file):
        return
    try:
        state = json.loads(file.read_bytes())
        key = case.random.choice(list(state))
    except (ValueError, IndexError, TypeError, RecursionError):
        return
    if key == "files" and state[key]:
        entry = case.random.choice(state[key])
        of_entry = case.random.choice(list(entry))
        entry[of_entry] = case.random.choice(
            [odd.scalar(case.random), "../../precious", "config.json"])
        case.note(f"files: {of_entry} = {str(entry[of_entry])[:60]!a}")
    elif case.random.random() < 0.2:
        del state[key]
        case.note(f"trainer.json without {key}")
    else:
        state[key] = odd.scalar(case.random)
        case.note(f"trainer.json: {key} = {str(state[key])[:60]!a}")
    file.write_bytes(odd.json_of(case.random, state))


def replace_state(case: Case, checkpoint: pathlib.Path) -> None:
    other = {"full": "sharded", "sharded": "full"}[case.notes[0]]
    contents = case.random.choice([
        odd.nested(case.random).encode(),
        odd.nested(case.random, '{"a":', "}").encode(), b"[]", b"null", b"{}",
        (case.artefacts / other / "trainer.json").read_bytes()
    ])
    if (checkpoint / "trainer.json").is_file():
        (checkpoint / "trainer.json").write_bytes(contents)
    case.note(f"trainer.json: {contents[:20]!a}")


def change_header(case: Case, checkpoint: pathlib.Path) -> None:
    from tests.hostile.kinds import model_folders
    model_folders.change_header(case, checkpoint)


MUTATIONS = (*[damage] * 4, replace_file, replace_file, change_state, change_state,
             replace_state, change_header)
