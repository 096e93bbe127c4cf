"""Writes some of games.csv as chats, JSON lines of `messages`: asked how a game ended, the assistant
says so.

    python3 make_chats.py --games 600 --output chats.jsonl
"""

import argparse
import csv
import json
import pathlib

MOVES = 12  # the last ones of a game, with their numbers
WINNER = {"1-0": "White won", "0-1": "Black won", "1/2-1/2": "It was a draw"}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--games", type=int, required=True)
    options.add_argument("--output", type=pathlib.Path, required=True)
    chosen = options.parse_args()
    with open(pathlib.Path(__file__).with_name("games.csv"), newline="") as games, \
         open(chosen.output, "w") as output:
        for _, game in zip(range(chosen.games), csv.DictReader(games)):
            moves = " ".join(game["Moves"].split(" ")[-MOVES:])
            ending = game["Termination"].replace("_", " ").lower()
            chat = [{"role": "user", "content": f"A game of chess ended {moves}. Who won, and how?"},
                    {"role": "assistant", "content": f"{WINNER[game['Result']]}, by {ending}."}]
            output.write(json.dumps({"messages": chat}) + "\n")


if __name__ == "__main__":
    main()
