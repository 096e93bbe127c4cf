#pragma once

#include <string>
#include <vector>

#include "runner/store/store.h"
#include "tests/end_to_end/program.h"

// Runs of fsdp-run with a trainer that misbehaves on demand (tests/fakes/stub_trainer.cpp).
namespace fsdp {

inline const std::string kTwoPoints =
    "  - {name: first, strategy: {kind: ddp, ranks: 3}}\n"
    "  - {name: second, strategy: {kind: fsdp, ranks: 2}}\n";

inline std::vector<ComparisonRow> rows(const Workplace& workplace) {
  return Store(workplace.results(), StoreUse::kExisting).comparison("trial");
}

}  // namespace fsdp
