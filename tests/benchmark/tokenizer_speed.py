"""Compares our tokenizers' speed with tokenizers (Rust), tiktoken and SentencePiece (C++), on one
core.

By hand: cmake --build --preset release --target tokenizer_speed
         .venv/bin/python tests/benchmark/tokenizer_speed.py --program build/release/tokenizer_speed

In each round all programs read the same texts, one after the other. A row has medians over the
rounds.
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1", HF_HUB_OFFLINE="1")
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tokenizers"))
import folders  # noqa: E402
import tokenizers  # noqa: E402
from folders import shipped  # noqa: E402
from texts import texts  # noqa: E402

MEGABYTES = 4
KINDS = ("documents", "odd texts")


def documents(rng: random.Random) -> list[str]:
    """Returns licences and code of this system. Lines are joined to paragraphs."""
    root = pathlib.Path("/usr/share")
    files = sorted([*root.glob("common-licenses/*"), *root.glob("perl/*/**/*.p[lm]"),
                    *pathlib.Path("/usr/lib/python3.11").glob("*.py")])
    found = []
    size = 0
    rng.shuffle(files)
    for file in files:
        text = file.read_text(encoding="utf-8", errors="ignore").replace("\n", " ")
        found += [text[at:at + 2000] for at in range(0, len(text), 2000)]
        size += len(text.encode())
        if size > MEGABYTES << 20:
            break
    return found


def odd(rng: random.Random) -> list[str]:
    found = texts(rng.randrange(1 << 30), 30_000)
    return [" ".join(found[at:at + 20]).replace("\n", " ").replace("\r", " ")
            for at in range(0, len(found), 20)]


class Program:
    def __init__(self, *command: str):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self) -> tuple[float, int]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, tokens = self.process.stdout.readline().split()
        return float(seconds), int(tokens)


def rust(file: pathlib.Path, sample: list[str]):
    tokenizer = tokenizers.Tokenizer.from_file(str(file))

    def run() -> tuple[float, int]:
        begin = time.perf_counter()
        # The library's fastest call, because it computes no offsets.
        encoded = tokenizer.encode_batch_fast(sample, add_special_tokens=False)
        return time.perf_counter() - begin, sum(len(each.ids) for each in encoded)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="part of the rows' names")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    print("| texts | tokenizer | ours MB/s | other MB/s | ours / other |\n|---|---|---|---|---|")
    for kind, make in zip(KINDS, (documents, odd), strict=True):
        sample = make(random.Random(1))
        file = folder / "texts"
        file.write_text("\n".join(sample) + "\n", encoding="utf-8")
        pairs = {}
        for maker in (folders.llama3, folders.qwen2, folders.gpt2):
            made = folder / maker.__name__
            made.mkdir(exist_ok=True)
            json = maker(made) / "tokenizer.json"
            pairs[f"{maker.__name__}, tokenizers"] = (Program(options.program, json, file, "special"),
                                                      rust(json, sample))
        model = shipped("mistral_common", folders.MISTRAL)
        pairs["mistral v1, SentencePiece"] = (Program(options.program, model, file, "plain"),
                                              Program(options.program, model, file, "sentencepiece"))
        for name, both in pairs.items():
            if options.only not in name:
                continue
            rates = ([], [])
            for _ in range(options.rounds):
                runs = [run() for run in both]
                assert runs[0][1] == runs[1][1], (name, runs)
                for rate, (seconds, _) in zip(rates, runs, strict=True):
                    rate.append(file.stat().st_size / seconds / 1e6)
            ours, other = map(statistics.median, rates)
            print(f"| {kind} | {name} | {ours:.1f} | {other:.1f} | {ours / other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
