#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/fields.h"
#include "contract/record/memory_trace.h"

// A rank's work and memory in a step, piece by piece, for programs that show traces.
namespace fsdp {

enum class SpanKind {
  kPart,        // a stretch of the stream that computes; its name is that of a TimePart
  kWork,        // a named piece of work on that stream, which encloses parts and other work
  kBeside,      // work on another stream
  kCollective,  // an operation with other ranks
};

constexpr auto enum_names(SpanKind) {
  return std::array{"part"sv, "work"sv, "beside"sv, "collective"sv};
}

struct TraceSpan {
  SpanKind kind = SpanKind::kPart;
  std::string name{};
  std::optional<int64_t> unit{};  // of the model
  int64_t bytes = 0;              // that a collective has moved: the size of the whole tensor
  // Since the step began. Negative: on another stream, before the computation of the step before
  // had ended.
  int64_t begin_ns = 0;
  int64_t time_ns = 0;

  static void visit_fields(auto& self, auto&& visit) {
    visit("kind", self.kind);
    visit("name", self.name);
    visit("unit", self.unit);
    visit("bytes", self.bytes);
    visit("begin_ns", self.begin_ns);
    visit("time_ns", self.time_ns);
  }
};

// The parts of a step follow each other without a gap. They add up to its StepAccount, before waits
// are compared between ranks.
struct StepTrace {
  int64_t step = 0;
  int64_t begin_unix_ms = 0;
  // Numbers of changes of RankTrace::memory before the step began, and before it ended.
  int64_t memory_changes_before = 0;
  int64_t memory_changes_at_end = 0;
  std::vector<TraceSpan> spans{};

  static void visit_fields(auto& self, auto&& visit) {
    visit("step", self.step);
    visit("begin_unix_ms", self.begin_unix_ms);
    visit("memory_changes_before", self.memory_changes_before);
    visit("memory_changes_at_end", self.memory_changes_at_end);
    visit("spans", self.spans);
  }
};

// The file RunPaths::trace() of a rank.
struct RankTrace {
  std::vector<StepTrace> steps{};
  // From the begin of the first step to the end of the last. The allocations that were live at the
  // begin come first.
  std::vector<MemoryChange> memory{};

  static void visit_fields(auto& self, auto&& visit) {
    visit("steps", self.steps);
    visit("memory", self.memory);
  }
};

}  // namespace fsdp
