#include "tests/end_to_end/real_runs.h"

#include <arpa/inet.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace fsdp {
namespace {

void wait_for(const std::function<bool()>& condition, const std::string& what) {
  if (!soon(condition)) throw std::runtime_error("never came: " + what);
}

template <typename Body, typename Matches>
void wait_for_event(const std::filesystem::path& file, const std::string& what, Matches matches) {
  wait_for(
      [&] {
        const std::vector<Event> events = events_in(file);
        return std::any_of(events.begin(), events.end(), [&](const Event& event) {
          const auto* body = std::get_if<Body>(&event.body);
          return body != nullptr && matches(*body);
        });
      },
      what + " in " + file.string());
}

bool is_in(const std::filesystem::path& process, const std::filesystem::path& folder) {
  std::error_code error;  // the process may have ended, or be another user's
  return std::filesystem::read_symlink(process / "cwd", error) == folder && !error;
}

}  // namespace

const std::string kTinyRun =
    "{device: cpu, threads_per_rank: 1, train: {steps: 5, warmup_steps_excluded: 0}, "
    "data: {sequence_length: 16, train: " +
    few_games() +
    "}, batch: {size_per_rank: 1}, "
    "model: {config: {num_hidden_layers: 2, hidden_size: 32, intermediate_size: 64, "
    "num_attention_heads: 2, num_key_value_heads: 2, vocab_size: 1024}}}";

std::filesystem::path attempt_folder(const Workplace& workplace, const std::string& point,
                                     int attempt) {
  const std::filesystem::path runs = workplace.results() / "runs/trial";
  std::filesystem::path found;
  wait_for(
      [&] {
        std::error_code not_there_yet;
        for (const auto& run : std::filesystem::directory_iterator(runs, not_there_yet)) {
          if (run.path().filename().string().starts_with(point + '-')) {
            found = run.path() / ("attempt-" + std::to_string(attempt));
            if (std::filesystem::exists(found)) return true;
          }
        }
        return false;
      },
      "attempt " + std::to_string(attempt) + " at " + point);
  return found;
}

std::filesystem::path events_file(const std::filesystem::path& attempt_folder, int rank) {
  return attempt_folder / ("events.rank" + std::to_string(rank) + ".jsonl");
}

std::vector<Event> events_in(const std::filesystem::path& events_file) {
  const std::string text = text_of(events_file);
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::vector<Event> events;
  for (std::string line; std::getline(lines, line);) {
    events.push_back(event_from_json_line(line).value());
  }
  return events;
}

void wait_for_step(const std::filesystem::path& events_file, int64_t step) {
  wait_for_event<StepDone>(events_file, "step " + std::to_string(step),
                           [&](const StepDone& done) { return done.step >= step; });
}

void wait_for_file(const std::filesystem::path& file) {
  wait_for([&] { return std::filesystem::exists(file); }, file.string());
}

void wait_for_the_end(const std::filesystem::path& events_file) {
  wait_for_event<RunFinished>(events_file, "the end", [](const RunFinished&) { return true; });
}

bool nobody_left_in(const Workplace& workplace) {
  const std::filesystem::path folder = std::filesystem::canonical(workplace / ".");
  return soon([&] {
    const std::filesystem::directory_iterator processes("/proc");
    return std::none_of(begin(processes), end(processes),
                        [&](const auto& process) { return is_in(process.path(), folder); });
  });
}

Variables as_torchrun(int rank, int ranks, const std::string& port) {
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", port}};
}

void write_tokens(const std::filesystem::path& file, int rows, int columns, int token) {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(columns) + "), }";
  header.resize(128 - 10 - 1, ' ');  // with the magic, version and length: a multiple of 64
  header += '\n';
  const std::vector<int32_t> tokens(size_t(rows) * size_t(columns), token);
  std::ofstream out(file, std::ios::binary);
  out << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size()) << '\0' << header;
  out.write(reinterpret_cast<const char*>(tokens.data()), std::streamsize(tokens.size() * 4));
}

}  // namespace fsdp
