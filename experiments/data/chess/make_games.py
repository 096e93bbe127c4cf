#!/usr/bin/env python3
"""Write chess games that Stockfish plays against itself, one game per CSV row.

Each game starts with 4 to 12 plies drawn by weight from a Polyglot opening book. Then each side
searches a fixed number of nodes per move, drawn anew for each side of each game, so that sides
differ in strength. One thread, node limits and a hash cleared before each game make the file a
function of the seed, the engine and the book. The committed games.csv was made with:

    python3 make_games.py --size-bytes 2000000 --seed 1 --output games.csv
"""

import argparse
import csv
import io
import random

import chess
import chess.engine
import chess.polyglot

MIN_BOOK_PLIES, MAX_BOOK_PLIES = 4, 12
MIN_NODES, MAX_NODES = 50, 2000
MAX_PLIES = 300
DRAW = "1/2-1/2"


def parse_arguments():
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description="Write games that Stockfish plays against itself, one per CSV row.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--size-bytes", type=int, default=2_000_000, help="stop at this file size")
    parser.add_argument("--seed", type=int, default=1, help="seed of openings and node limits")
    parser.add_argument("--output", default="games.csv", help="file to write")
    parser.add_argument("--book", default="/usr/share/games/gnuchess/book.bin",
                        help="Polyglot opening book")
    parser.add_argument("--engine", default="/usr/games/stockfish", help="UCI engine to run")
    return parser.parse_args()


def play_opening(board, book, rng):
    """Push book moves on the board, each chosen by its weight, while the book has any."""
    for _ in range(rng.randint(MIN_BOOK_PLIES, MAX_BOOK_PLIES)):
        if book.get(board) is None:
            return
        board.push(book.weighted_choice(board, random=rng).move)


def draw_node_limit(rng):
    """Return a node limit, spread evenly on a logarithmic scale."""
    return round(MIN_NODES * (MAX_NODES / MIN_NODES) ** rng.random())


def find_ending(board):
    """Return the termination and result of a finished game, or None while it goes on."""
    outcome = board.outcome()
    if outcome:
        return outcome.termination.name, outcome.result()
    if board.is_repetition(3):
        return "THREEFOLD_REPETITION", DRAW
    if board.is_fifty_moves():
        return "FIFTY_MOVES", DRAW
    if board.ply() >= MAX_PLIES:
        return "MAX_PLIES", DRAW
    return None


def play_game(engine, book, rng, game_number):
    """Play one game; return its moves as text, its termination and its result."""
    board = chess.Board()
    play_opening(board, book, rng)
    limits = {side: chess.engine.Limit(nodes=draw_node_limit(rng)) for side in chess.COLORS}
    while not (ending := find_ending(board)):
        # A new game number makes the engine clear its hash.
        board.push(engine.play(board, limits[board.turn], game=game_number).move)
    return chess.Board().variation_san(board.move_stack), *ending


def format_row(fields):
    """Return the fields as one CSV line."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def write_games(engine, book, rng, size_bytes, output):
    """Write distinct games until the file holds size_bytes bytes."""
    size = output.write(format_row(["Moves", "Termination", "Result"]))
    seen = set()
    game_number = 0
    while size < size_bytes:
        game_number += 1
        row = format_row(play_game(engine, book, rng, game_number))
        if row not in seen:
            seen.add(row)
            size += output.write(row)
    print(f"{len(seen)} games, {size} bytes")


def main():
    """Play games as the command line asks and write them."""
    arguments = parse_arguments()
    rng = random.Random(arguments.seed)
    with chess.engine.SimpleEngine.popen_uci(arguments.engine) as engine, \
            chess.polyglot.open_reader(arguments.book) as book, \
            open(arguments.output, "w", encoding="ascii", newline="") as output:
        engine.configure({"Threads": 1, "Hash": 1})
        write_games(engine, book, rng, arguments.size_bytes, output)


if __name__ == "__main__":
    main()
