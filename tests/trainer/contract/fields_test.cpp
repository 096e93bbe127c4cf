#include "trainer/contract/fields.h"

#include <catch2/catch.hpp>

namespace fsdp {

TEST_CASE("a range says what it allows and allows just that") {
  CHECK(any_value().description().empty());
  CHECK(at_least(1).description() == "at least 1");
  CHECK(greater_than(0).description() == "greater than 0");
  CHECK(from_to(0, 1).description() == "at least 0 and at most 1");
  CHECK(from_to_below(0, 0.5).description() == "at least 0 and less than 0.5");
  CHECK(at_least(1).contains(1));
  CHECK_FALSE(greater_than(0).contains(0));
  CHECK(from_to(0, 1).contains(1));
  CHECK_FALSE(from_to_below(0, 1).contains(1));
  CHECK_FALSE(at_least(0).contains(std::numeric_limits<double>::quiet_NaN()));
}

TEST_CASE("numbers are written in the fewest digits that read back the same") {
  CHECK(shortest(1e-5) == "1e-05");
  CHECK(shortest(0.1) == "0.1");
  CHECK(shortest(4) == "4");
}

TEST_CASE("the nearest name is found, or none when all are far") {
  CHECK(nearest_name("fdsp", {"single", "ddp", "fsdp"}) == "fsdp");
  CHECK(nearest_name("rank", {"kind", "ranks"}) == "ranks");
  CHECK(nearest_name("zzzzzz", {"kind", "ranks"}).empty());
}

}  // namespace fsdp
