"""Chess games: a CSV with broken quotes, NUL, huge cells, other columns, no rows."""

import pathlib

from tests.hostile import odd
from tests.hostile.case import Case
from tests.hostile.kinds import model_folders

EXPERIMENT = model_folders.experiment(model_folders.tiny_model(1024),
                                      "{kind: chess, train: games.csv, sequence_length: 16}")
HEADING = "Moves,Termination,Result"
GAME = "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7,Normal,1-0"
GAMES = "\n".join([HEADING] + [GAME] * 40) + "\n"
LARGE_CELL_BYTES = 8 << 20


def attack(case: Case) -> None:
    case.write("experiment.yaml", EXPERIMENT)
    if case.random.random() < 0.15:
        case.write("games.csv", GAMES)
        damage_tokenizer(case)
    else:
        case.write("games.csv",
                   case.random.choice([odd_rows, odd_rows, odd_heading, damaged, other])(case))
    model_folders.judge(case, "experiment.yaml", trains=case.random.random() < 0.15)


def odd_rows(case: Case) -> str | bytes:
    random = case.random
    rows = [HEADING, *[GAME] * random.choice([0, 1, 40, 40, 40])]
    for _ in range(random.choice([1, 1, 3])):
        row, what = random.choice([('"' + GAME, "open quote"),
                                   (GAME.replace("e5", 'e"5'), "quote inside"),
                                   ('"e4 e5"x,Normal,1-0', "text behind a quote"),
                                   ("", "empty row"), (",,", "empty cells"), ("e4", "one cell"),
                                   (GAME + ",more", "more cells"), ("\x00" + GAME, "NUL"),
                                   ("e4 " * (LARGE_CELL_BYTES // 3) + ",Normal,1-0", "huge cell"),
                                   (GAME.replace("Normal", odd.text(random)), "odd termination"),
                                   (GAME.replace("1-0", odd.text(random)), "odd result"),
                                   (odd.text(random) + ",Normal,1-0", "odd moves"),
                                   ('"e4\ne5\nNf3",Normal,1-0', "line feeds in a cell"),
                                   (",".join(["x"] * 100_000), "many cells"),
                                   ('""""""""', "quotes"), ("=1+1,=1+1,=1+1", "formulas"),
                                   ("\x1b[2J,Normal,1-0", "escape"),
                                   ("é" * 100 + ",Normal,1-0", "other letters"),
                                   (";".join(GAME.split(",")), "semicolons"),
                                   ("\r", "carriage return")])
        rows.insert(random.randrange(1, len(rows) + 1), row)
        case.note(what)
    end = random.choice(["\n", "\n", "\r\n", "\r"])
    text = end.join(rows) + random.choice([end, "", '"'])
    return text.encode("utf-8", "surrogateescape") if random.random() < 0.9 else text.encode(
        "utf-16", "surrogatepass")


def odd_heading(case: Case) -> str:
    heading = case.random.choice([
        "", "Moves", "Moves,Moves,Moves", "moves,termination,result", "Result,Termination,Moves",
        "Moves,Termination,Result,", '"Moves","Termination","Result"',
        "\ufeffMoves,Termination,Result", "Moves,Termination,Result,Result",
        '"Moves,Termination,Result', "\x1b[2J,b,c", ",".join(f"c{i}" for i in range(50_000)),
        "Moves;Termination;Result", "M" * 1_000_000
    ])
    case.note(f"heading {heading[:40]!a}")
    return GAMES.replace(HEADING, heading, 1)


def damaged(case: Case) -> bytes:
    return case.damaged(GAMES.encode(), "games")


def other(case: Case) -> str | bytes:
    contents = case.random.choice(["", "\n", "\n" * 100_000, '"', '"' * 99_999, "\x00" * 5000,
                                   HEADING, HEADING + "\n", "," * 200_000, b"\xff\xfe\x00",
                                   "a" * 3_000_000])
    case.note(f"only {contents[:20]!a}")
    return contents


def damage_tokenizer(case: Case) -> None:
    """Damages a tokenizer, which is foreign data too."""
    root = pathlib.Path(__file__).resolve().parents[3]
    source = case.random.choice([
        root / "experiments/data/chess/tokenizer.model", root / "tests/fuzz/tokenizers/byte_level.json",
        root / "tests/fuzz/tokenizers/characters.json", root / "tests/fuzz/tokenizers/ranks.tiktoken"
    ])
    name = "tokenizer" + (".json" if source.suffix == ".json" else ".model")
    case.write(name, case.damaged(source.read_bytes(), f"tokenizer like {source.name}"))
    case.write("experiment.yaml",
               EXPERIMENT.replace("train: games.csv", f"train: games.csv, tokenizer: {name}"))
