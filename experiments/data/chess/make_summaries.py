"""Writes some of games.csv in the columns of WikiHow (headline, title, text), for models that
summarize. The text is the last moves of a game, and the headline says how the game ended.

    python3 make_summaries.py --games 600 --output summaries.csv
"""

import argparse
import csv
import pathlib

MOVES = 12  # the last ones of a game, with their numbers


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--games", type=int, required=True)
    options.add_argument("--output", type=pathlib.Path, required=True)
    chosen = options.parse_args()
    with open(pathlib.Path(__file__).with_name("games.csv"), newline="") as games, \
         open(chosen.output, "w", newline="") as output:
        rows = csv.writer(output, lineterminator="\n")
        rows.writerow(["headline", "title", "text"])
        for _, game in zip(range(chosen.games), csv.DictReader(games)):
            ending = game["Termination"].replace("_", " ").lower()
            moves = game["Moves"].split(" ")[-MOVES:]
            rows.writerow([f"{game['Result']} by {ending}", "", " ".join(moves)])


if __name__ == "__main__":
    main()
