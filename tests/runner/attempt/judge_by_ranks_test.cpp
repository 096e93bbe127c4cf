#include <catch2/catch.hpp>

#include "runner/run/judgement.h"

namespace fsdp {
namespace {

RankState rank_end(RankEndKind kind, int64_t time_unix_ms, int64_t exit_code = 0,
                   const std::string& reason = "") {
  RankState end;
  end.kind = kind;
  end.exit_code = exit_code;
  end.reason = reason;
  end.last_step = 12;
  if (time_unix_ms > 0) end.last_event_unix_ms = time_unix_ms;
  return end;
}

RankState finished(int64_t time) { return rank_end(RankEndKind::kFinished, time); }
RankState silent(int64_t time) { return rank_end(RankEndKind::kNone, time); }
RankState interrupted(int64_t time) { return rank_end(RankEndKind::kInterrupted, time); }
RankState failed(int64_t time) { return rank_end(RankEndKind::kFailed, time, 1, "it broke"); }
RankState misconfigured(int64_t time) {
  return rank_end(RankEndKind::kFailed, time, 2, "bad file");
}
RankState out_of_memory(int64_t time) { return rank_end(RankEndKind::kFailed, time, 3, "no room"); }
RankState communication(int64_t time) {
  return rank_end(RankEndKind::kFailed, time, 4, "peer lost");
}
RankState never_started() {
  RankState end;
  return end;
}

TEST_CASE("how an attempt ended follows from its ranks' last events") {
  struct Case {
    const char* name;
    std::vector<RankState> ranks;
    RunStatus status;
    std::string reason;
    int reason_rank;
    bool is_explained;
  };
  using enum RunStatus;
  const std::vector<Case> cases{
      {"all finished", {finished(5), finished(6)}, kFinished, "", -1, true},
      {"all finished, one without a step",
       {finished(5), rank_end(RankEndKind::kFinished, 6, 0, "finished without a step")},
       kFailed,
       "rank 1: finished without a step",
       1,
       true},
      {"out of memory after communication errors of the others",
       {communication(5), out_of_memory(9), communication(6)},
       kOutOfMemory,
       "rank 1: no room",
       1,
       true},
      {"the earliest of two out of memory",
       {out_of_memory(9), out_of_memory(8)},
       kOutOfMemory,
       "rank 1: no room",
       1,
       true},
      {"out of memory outranks an earlier failure",
       {failed(3), out_of_memory(9)},
       kOutOfMemory,
       "rank 1: no room",
       1,
       true},
      {"a failure outranks earlier communication errors",
       {communication(5), failed(9)},
       kFailed,
       "rank 1: it broke",
       1,
       true},
      {"the earliest failure is the cause",
       {failed(9), misconfigured(4), communication(1)},
       kFailed,
       "rank 1: bad file",
       1,
       true},
      {"a failure outranks an interruption",
       {interrupted(1), failed(9)},
       kFailed,
       "rank 1: it broke",
       1,
       true},
      {"communication errors alone",
       {communication(7), communication(5)},
       kFailed,
       "rank 1: peer lost",
       1,
       false},
      {"communication errors and a silent rank",
       {communication(7), silent(5)},
       kFailed,
       "rank 1 ended without reporting why, after step 12; then rank 0: peer lost",
       1,
       false},
      {"asked to stop, then peers lost",
       {interrupted(5), communication(6)},
       kInterrupted,
       "asked to stop after step 12",
       -1,
       true},
      {"peer lost, then asked to stop",
       {interrupted(6), communication(5), silent(4)},
       kFailed,
       "rank 2 ended without reporting why, after step 12; then rank 1: peer lost",
       2,
       false},
      {"asked to stop",
       {interrupted(5), interrupted(5)},
       kInterrupted,
       "asked to stop after step 12",
       -1,
       true},
      {"one silent",
       {finished(5), silent(4)},
       kInterrupted,
       "rank 1 ended without reporting why, after step 12",
       1,
       false},
      {"nothing at all",
       {never_started(), never_started()},
       kInterrupted,
       "rank 0 ended without reporting why, before its first step",
       0,
       false},
      {"no ranks", {}, kInterrupted, "no rank was started", -1, false},
  };
  for (const Case& expected : cases) {
    INFO(expected.name);
    std::vector<RankState> ranks = expected.ranks;
    for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].rank = static_cast<int>(rank);
    const Verdict ending = judge_by_ranks(ranks);
    CHECK(name_of(ending.status) == name_of(expected.status));
    CHECK(ending.reason == expected.reason);
    CHECK(ending.reason_rank == expected.reason_rank);
    CHECK(ending.is_explained == expected.is_explained);
  }
}

TEST_CASE("an attempt ended with the last event of any rank") {
  CHECK(last_event_unix_ms(std::vector{finished(5), finished(9), finished(7)}) == 9);
  CHECK(last_event_unix_ms(std::vector{never_started(), silent(3)}) == 3);
  CHECK_FALSE(last_event_unix_ms(std::vector{never_started()}));
}

}  // namespace
}  // namespace fsdp
