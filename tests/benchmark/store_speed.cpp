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

// Measures the speed of recording and reading results. By hand:
//
//     cmake --build --preset release --target store_speed fsdp-run-program
//     build/release/store_speed [steps to ingest] [runs] [steps of each run]
//
// prints a table in Markdown. Processor time well below wall time means that other work ran.
namespace {

using namespace fsdp;

constexpr int kRanks = 4;

// The CPU time of this process and of the ended processes that it waited for.
double processor_seconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return seconds;
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

std::vector<Event> events_of(int rank, int64_t steps) {
  RunStarted started;
  started.rank = rank;
  started.world_size = kRanks;
  started.steps_planned = steps;
  std::vector<Event> events;
  events.push_back({.time_unix_ms = 1'000, .body = started});
  for (int64_t step = 1; step <= steps; ++step) {
    events.push_back(
        {.sequence = step, .time_unix_ms = 1'000 + 120 * step, .body = made_up_step(step, rank)});
  }
  events.push_back({.sequence = steps + 1,
                    .time_unix_ms = 2'000 + 120 * steps,
                    .body = RunFinished{.steps = steps}});
  return events;
}

void write_events(const RunPaths& paths, int64_t steps) {
  std::filesystem::create_directories(paths.attempt(1));
  for (int rank = 0; rank < kRanks; ++rank) {
    std::ofstream file(paths.events(1, rank));
    for (const Event& event : events_of(rank, steps)) file << to_json_line(event) << '\n';
  }
}

const ExperimentRecord kExperiment{
    .name = "speed", .title = "", .file = "", .text = "", .text_digest = "", .profile = ""};

RunRecord planned(const std::string& point, int64_t position) {
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
    const std::string columns = "rank, sequence, time_unix_ms, " + field_columns<StepDone>();
    database.execute("create table steps (run default 1, attempt default 1, " + columns + ")");
    Statement insert(database, "insert into steps " + values_of(columns));
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

// Stores runs as a sweep leaves them, a hundred in a transaction.
void fill(Store& store, int64_t run_count, int64_t steps) {
  std::vector<RunRecord> runs;
  for (int64_t i = 0; i < run_count; ++i) runs.push_back(planned("point " + std::to_string(i), i));
  const std::vector<RunRecord> records = store.plan(kExperiment, runs);
  for (size_t i = 0; i < records.size();) {
    Store::Batch batch(store);
    for (const size_t end = std::min(i + 100, records.size()); i < end; ++i) {
      const int attempt = store.begin_attempt(records[i].id, {.host = "here"});
      std::vector<std::vector<Event>> events(kRanks);
      for (int rank = 0; rank < kRanks; ++rank)
        events[static_cast<size_t>(rank)] = events_of(rank, steps);
      store.ingest(records[i].id, attempt, events);
      store.end_attempt(records[i].id, attempt, RunStatus::kFinished, "", 5'000);
    }
    batch.commit();
  }
}

void report_speed(const std::filesystem::path& runner, int64_t run_count, int64_t steps) {
  const TemporaryFolder folder;
  const std::string runs = std::to_string(run_count) + " runs";
  measure("recording " + runs, run_count * steps * kRanks, [&] {
    Store store(folder.path());
    fill(store, run_count, steps);
  });
  printf("%ju MiB in the database\n",
         std::filesystem::file_size(folder.path() / "results.sqlite") >> 20);
  for (const std::string command : {"status", "report --format table", "report --format json"}) {
    measure("fsdp-run " + command + ", " + runs, 0, [&] {
      const std::string line =
          runner.string() + " " + command + " --results " + folder.path().string() + " > /dev/null";
      if (std::system(line.c_str()) != 0) throw std::runtime_error(line);
    });
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  const auto argument = [&](int i, int64_t otherwise) {
    return argument_count > i ? std::stoll(arguments[i]) : otherwise;
  };
  printf("| %-44s | wall s   | cpu s    | rows/s     | rows/cpu s |\n|---|---|---|---|---|\n", "");
  ingest_speed(argument(1, 100'000));
  report_speed(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fsdp-run",
               argument(2, 10'000), argument(3, 250));
}
