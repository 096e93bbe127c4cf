#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fsdp {

struct ChessGame {
  std::string moves;        // 1. e4 e5 2. Nf3 ...
  std::string termination;  // CHECKMATE, ...
  std::string result;       // 1-0, 0-1, 1/2-1/2
};

// Reads a CSV file (RFC 4180, UTF-8) whose header has the columns Moves, Termination and Result, in
// any order and among others. Throws ConfigError (place: the file, with the line where known).
std::vector<ChessGame> read_chess_games(const std::filesystem::path& path);

}  // namespace fsdp
