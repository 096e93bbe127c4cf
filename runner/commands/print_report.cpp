#include "runner/commands/print_report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string_view>

#include "runner/series/doubling_notes.h"
#include "runner/series/run_keys.h"

namespace fsdp {

bool stdout_has_colour() {
  return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

size_t stdout_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string_view said = std::getenv("COLUMNS") ? std::getenv("COLUMNS") : "";
  size_t columns = 0;
  std::from_chars(said.data(), said.data() + said.size(), columns);
  return columns;
}

namespace {

// Reads the losses of finished runs that must have the same losses as another run. Reads none if
// that would take seconds.
void read_losses(std::vector<ComparisonRow>& rows, const Store& store) {
  constexpr double kMostSteps = 300'000;
  std::map<std::string, std::vector<ComparisonRow*>> must_be_equal;
  for (ComparisonRow& row : rows) {
    const bool is_known = row.status == RunStatus::kFinished && !row.loss_digest.empty();
    if (is_known) must_be_equal[row.loss_digest].push_back(&row);
  }
  std::erase_if(must_be_equal, [](const auto& equal) { return equal.second.size() < 2; });
  double steps = 0;
  for (const auto& [digest, equal] : must_be_equal) {
    for (const ComparisonRow* row : equal) steps += static_cast<double>(row->steps.value_or(0));
  }
  if (steps > kMostSteps) return;
  for (const auto& [digest, equal] : must_be_equal) {
    for (ComparisonRow* row : equal) {
      row->losses = store.losses(row->run, static_cast<int>(*row->attempt));
    }
  }
}

// Names the measured runs that have left their lists, or removes them and notes how to show them.
void put_variants(Report& report, Listed listed) {
  const auto is_variant = [](const ComparisonRow& row) { return !row.current; };
  std::erase_if(report.rows, [&](auto& row) { return is_variant(row) && !row.attempt; });
  const auto count = std::ranges::count_if(report.rows, is_variant);
  if (count == 0) return;
  if (listed == Listed::kNow) {
    std::erase_if(report.rows, is_variant);
    report.notes.push_back(
        fmt::format("Not in the list any more, and not shown: {}, made with --set or before the "
                    "file was edited; "
                    "`fsdp-run report --all` shows all.",
                    count == 1 ? "1 run" : fmt::format("{} runs", count)));
    return;
  }
  name_variants(report.rows);
  std::map<int64_t, size_t> places;
  for (const ComparisonRow& row : report.rows) places.emplace(row.run, places.size());
  std::erase_if(report.rank_rows, [&](const RankRow& rank) { return !places.contains(rank.run); });
  std::ranges::stable_sort(report.rank_rows, {},
                           [&](const RankRow& rank) { return places.at(rank.run); });
  for (RankRow& rank : report.rank_rows) rank.point = report.rows[places.at(rank.run)].point;
  report.notes.push_back("[...]: what changed in runs that are no longer in the list.");
}

}  // namespace

void read_rows(Report& report, const Store& store, const std::vector<std::string>& experiments,
               std::optional<int64_t> since_unix_ms, Listed listed) {
  const std::vector<std::string> every{""};
  for (const std::string& experiment : experiments.empty() ? every : experiments) {
    std::ranges::move(store.comparison(experiment, Listed::kEver), std::back_inserter(report.rows));
    if (report.row_kind != RowKind::kRank) continue;
    std::ranges::move(store.comparison_per_rank(experiment, listed),
                      std::back_inserter(report.rank_rows));
  }
  if (since_unix_ms) {
    std::erase_if(report.rows, [&](const ComparisonRow& run) {
      return run.started_unix_ms.value_or(0) < *since_unix_ms;
    });
  }
  put_variants(report, listed);
  read_losses(report.rows, store);
  std::ranges::move(doubling_notes(report.rows), std::back_inserter(report.notes));
}

}  // namespace fsdp
