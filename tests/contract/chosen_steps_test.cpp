#include "contract/spec/chosen_steps.h"

#include <catch2/catch.hpp>

namespace fsdp::chosen_steps_test {

std::vector<int64_t> chosen(const TextList& items) {
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= 12; ++step) {
    if (is_among_steps(items, step)) steps.push_back(step);
  }
  return steps;
}

TEST_CASE("steps are chosen by number, range and interval") {
  CHECK(chosen({}).empty());
  CHECK(chosen({"7"}) == std::vector<int64_t>{7});
  CHECK(chosen({"3-5", "4-6", "11"}) == std::vector<int64_t>{3, 4, 5, 6, 11});
  CHECK(chosen({"every 5"}) == std::vector<int64_t>{5, 10});
}

TEST_CASE("text that names no steps is refused") {
  for (const char* item : {"", "0", "-3", "5-3", "3-", "3-x", "x", "every", "every 0", "every -1",
                           "every 3-4", "1,2", " 7", "7 ", "99999999999999999999"}) {
    INFO(item);
    CHECK_FALSE(names_steps(item));
  }
}

}  // namespace fsdp::chosen_steps_test
