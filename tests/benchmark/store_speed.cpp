#include <sqlite3.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runner/store/database.h"
#include "runner/store/event_files.h"
#include "runner/store/store.h"
#include "tests/temporary_folder.h"

// How fast results are recorded and read back. By hand:
//
//     cmake --build --preset release --target store_speed fsdp-run-program
//     build/release/store_speed [runs] [steps of each]
//
// prints a table in Markdown. Beside the wall time stands the processor time, which tells how far
// the machine was busy with something else.
namespace {

using namespace fsdp;

constexpr int kRanks = 4;

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void print_line(const std::string& what, double seconds, double processor, int64_t rows) {
  printf("| %-44s | %8.3f | %8.3f |", what.c_str(), seconds, processor);
  if (rows > 0) {
    printf(" %10.0f | %10.0f |\n", static_cast<double>(rows) / seconds,
           static_cast<double>(rows) / processor);
  } else {
    printf(" %10s | %10s |\n", "", "");
  }
  fflush(stdout);
}

void measure(const std::string& what, int64_t rows, const std::function<void()>& work) {
  const double processor = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  print_line(what, seconds.count(), processor_seconds() - processor, rows);
}

StepDone made_up_step(int64_t step, int rank) {
  const auto x = static_cast<double>(step);
  StepDone done;
  done.step = step;
  done.loss = 2 + 5 / std::sqrt(x);
  done.step_time_ms = 120 + 10 * std::sin(x + rank);
  done.tokens = 16384;
  done.label_count = 16000 + step % 300;
  done.learning_rate = 2e-4 * (1 - 1e-5 * x);
  done.gradient_norm = 1 + std::abs(std::cos(x));
  done.memory_allocated_bytes_forward = 20'123'456'789 + 512 * step;
  done.memory_reserved_bytes_forward = 24'696'061'952;
  done.memory_allocated_bytes_max = 25'123'456'789 + 512 * step;
  done.memory_reserved_bytes_max = 26'696'061'952;
  done.communication_time_ms = 17 + std::sin(3 * x);
  return done;
}

void write_events(const RunPaths& paths, int64_t steps) {
  std::filesystem::create_directories(paths.attempt(1));
  for (int rank = 0; rank < kRanks; ++rank) {
    std::ofstream file(paths.events(1, rank));
    RunStarted started;
    started.rank = rank;
    started.world_size = kRanks;
    started.steps_planned = steps;
    file << to_json_line({.time_unix_ms = 1'000, .body = started}) << '\n';
    for (int64_t step = 1; step <= steps; ++step) {
      file << to_json_line({.sequence = step,
                            .time_unix_ms = 1'000 + 120 * step,
                            .body = made_up_step(step, rank)})
           << '\n';
    }
    file << to_json_line({.sequence = steps + 1,
                          .time_unix_ms = 2'000 + 120 * steps,
                          .body = RunFinished{.steps = steps}})
         << '\n';
  }
}

Store::PlannedRun planned(const std::string& point, int64_t position) {
  RunSpec spec;
  spec.strategy.kind = StrategyKind::kDdp;
  spec.strategy.ranks = kRanks;
  spec.device = DeviceKind::kCpu;
  return {.point = point,
          .spec = resolved(spec),
          .hash = "0123456789abcdef0123456789abcdef",
          .folder = "runs/" + point,
          .position = position,
          .series = point};
}

void ingest_speed(int64_t steps) {
  const TemporaryFolder folder;
  const RunPaths paths(folder.path() / "run");
  write_events(paths, steps);
  const int64_t rows = steps * kRanks;

  measure("nlohmann's parse alone", rows, [&] {
    std::ifstream file(paths.events(1, 0));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    size_t members = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const std::string& line : lines) members += nlohmann::json::parse(line).size();
    }
    if (members == 0) abort();
  });

  measure("plain SQLite inserts, one transaction", rows, [&] {
    Database database(folder.path() / "plain.sqlite");
    database.execute(
        "create table steps (run, attempt, rank, sequence, time, a, b, c, d, e, f, g, h, i, j, k, "
        "l, m, n, o)");
    Statement insert(
        database, "insert into steps values (1, 1, ?, ?, ?, " + field_parameters<StepDone>() + ")");
    Transaction transaction(database);
    const StepDone done = made_up_step(7, 0);
    for (int64_t row = 0; row < rows; ++row) insert.run(row % kRanks, row, row, done);
    transaction.commit();
  });

  const auto ignore = [](const std::string&) {};
  measure("reading of events alone", rows, [&] {
    EventTail tail(paths, 1, kRanks, ignore);
    do {
      tail.poll();
    } while (!tail.at_end());
  });

  Store store(folder.path() / "results");
  const std::vector runs{planned("point", 0)};
  const int64_t run_id = store
                             .plan({.name = "speed",
                                    .title = "",
                                    .file = "",
                                    .text = "",
                                    .text_digest = "",
                                    .profile = ""},
                                   runs)
                             .front()
                             .id;
  store.begin_attempt(run_id, {.host = "here"});
  measure("events files to committed rows", rows, [&] {
    EventTail tail(paths, 1, kRanks, ignore);
    do {
      store.ingest(run_id, 1, tail.poll());
    } while (!tail.at_end());
  });
  measure("end of the attempt, with its figures", rows,
          [&] { store.end_attempt(run_id, 1, RunStatus::kFinished, "", 5'000); });
}

}  // namespace

int main(int argument_count, char** arguments) {
  const int64_t steps = argument_count > 1 ? std::stoll(arguments[1]) : 100'000;
  printf("| %-44s | wall s   | cpu s    | rows/s     | rows/cpu s |\n|---|---|---|---|---|\n", "");
  ingest_speed(steps);
}
