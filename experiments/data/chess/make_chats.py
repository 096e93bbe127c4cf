"""Writes summaries.csv as chats, JSON lines of `messages`. The user asks how a game ended, and the
assistant answers.

    python3 make_chats.py --output chats.jsonl
"""

import argparse
import csv
import json
import pathlib

WINNER = {"1-0": "White won", "0-1": "Black won", "1/2-1/2": "It was a draw"}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=pathlib.Path, required=True)
    chosen = options.parse_args()
    summaries = pathlib.Path(__file__).with_name("summaries.csv")
    with open(summaries, newline="") as games, open(chosen.output, "w") as output:
        for game in csv.DictReader(games):
            result, ending = game["headline"].split(" by ")
            chat = [{"role": "user", "content": f"A game of chess ended {game['text']}. Who won, and how?"},
                    {"role": "assistant", "content": f"{WINNER[result]}, by {ending}."}]
            output.write(json.dumps({"messages": chat}) + "\n")


if __name__ == "__main__":
    main()
