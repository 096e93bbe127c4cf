"""Text is tokenized once, even if several commands need it."""

import json
import subprocess

import yaml
from conftest import ROOT, read_prepared

TOKENIZER = ROOT / "experiments/data/chess/tokenizer.model"


def experiment(folder, **data):
    base = {"data": data, "device": "cpu", "batch": {"size_per_rank": 1},
            "model": {"config": {"vocab_size": 1024}}}
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump({"experiment": "once", "base": base,
                                    "sweep": {"product": {"data.sequence_length": [8, 64]}}}))
    return file


def start(runner, file, results):
    return subprocess.Popen([runner, "prepare", file, "--results", results], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_runners_that_ask_at_once_make_a_file_once(runner, tmp_path):
    games = tmp_path / "games.csv"
    games.write_text("Moves,Termination,Result\n" + "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6,CHECKMATE,1-0\n" * 20_000)
    file = experiment(tmp_path, kind="chess", train=str(games), tokenizer=str(TOKENIZER))
    runners = [start(runner, file, tmp_path / "results") for _ in range(3)]
    outputs = [process.communicate() for process in runners]
    assert [process.returncode for process in runners] == [0, 0, 0], outputs
    assert sorted("made " in out for out, _ in outputs) == [False, False, True]
    for out, _ in outputs:
        assert "games.csv: 20000 documents" in out and "cut at sequence_length 8: 20000 documents" in out
        assert "sequence_length 64" not in out
    made, = (tmp_path / "results/prepared").glob("*.tokens")
    assert len(read_prepared(made).tokens) == 20_000

    made.write_bytes(made.read_bytes()[:-1])  # damaged: it is made again
    out, _ = start(runner, file, tmp_path / "results").communicate()
    assert "made " in out
    assert len(read_prepared(made).tokens) == 20_000


def test_show_prints_documents_as_text_with_what_is_trained_on(runner, tmp_path):
    chats = tmp_path / "chats.jsonl"
    chats.write_text(json.dumps({"messages": [{"role": "user", "content": "e4?"},
                                              {"role": "assistant", "content": "e5"}]}) + "\n")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"instruction": "1. e4", "output": "e5"}\n{"instruction": "d4", "output": "d5"}\n')
    for data, shown in (
            ({"kind": "messages", "train": str(chats), "format": "llama2"}, ["[INST]", "e4?", "[[", "e5", "</s>]]"]),
            ({"kind": "instructions", "train": str(pairs)}, ["--- 1, ", "1. e4", "[[e5</s>]]", "--- 2, ", "[[d5</s>]]"])):
        file = experiment(tmp_path, tokenizer=str(TOKENIZER), **data)
        process = subprocess.run([runner, "prepare", file, "--results", tmp_path / "results", "--show", "2",
                                  "--set", "data.sequence_length=512", "--only", "once sequence_length=64"],
                                 text=True, capture_output=True)
        assert process.returncode == 0, process.stderr
        rest = process.stdout
        for text in shown:
            assert text in rest, (text, process.stdout)
            rest = rest.partition(text)[2]


def test_show_ends_where_the_longest_sequence_does(runner, tmp_path):
    games = tmp_path / "games.csv"
    games.write_text("Moves,Termination,Result\n1. e4 e5 2. Nf3 Nc6 3. Bb5 a6,CHECKMATE,1-0\n")
    file = experiment(tmp_path, kind="chess", train=str(games), tokenizer=str(TOKENIZER))

    def shown(*arguments):
        process = subprocess.run([runner, "prepare", file, "--results", tmp_path / "results", "--show", "1", *arguments],
                                 text=True, capture_output=True)
        assert process.returncode == 0, process.stderr
        return process.stdout.partition("  --- 1, ")[2]

    assert "a6" in shown() and " cut to " not in shown()
    cut = shown("--only", "once sequence_length=8")
    assert cut.splitlines()[0].endswith(" tokens, cut to 9 by sequence_length 8")
    assert "Bb5]]" in cut and "a6" not in cut


def test_a_wrong_record_is_named_by_check_and_leaves_no_file(runner, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "a"}\n{"text": 5}\n')
    file = experiment(tmp_path, kind="text", train=str(texts), tokenizer=str(TOKENIZER))
    process = start(runner, file, tmp_path / "results")
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "texts.jsonl:2" in errors and "something else than text in 'text'" in errors
    assert not (tmp_path / "results").exists()


def test_tokens_need_nothing_prepared(runner, tmp_path):
    (tmp_path / "train.bin").write_bytes(bytes(400))
    out, _ = start(runner, experiment(tmp_path, kind="tokens", train=str(tmp_path)), tmp_path).communicate()
    assert "nothing to prepare" in out
