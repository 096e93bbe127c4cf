#include "base/text/fields.h"

#include <catch2/catch.hpp>

#include "base/text/bytes_text.h"

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

TEST_CASE("a range tells integers apart that no double does") {
  constexpr int64_t kLimit = int64_t{1} << 53;
  CHECK(from_to(0, kLimit).contains(kLimit));
  CHECK_FALSE(from_to(0, kLimit).contains(kLimit + 1));
  CHECK_FALSE(from_to(0, 1e18).contains(std::numeric_limits<int64_t>::max()));
  CHECK(from_to(0, kLimit).description() == "at least 0 and at most 9007199254740992");
}

TEST_CASE("a number of any size is written whole") {
  CHECK(with_decimals(3.79e35, 4) == "378999999999999981102394800999497728.0000");
  CHECK(with_decimals(-std::numeric_limits<double>::max(), 2).size() == 1 + 309 + 3);
  CHECK(with_decimals(0.125, 2) == "0.12");
  CHECK(with_exponent(3.79e35, 2) == "3.79e+35");
  CHECK(with_exponent(0.000123456, 1) == "1.2e-04");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(int64_t{320} << 20) == "320 MiB");
  CHECK(bytes_text(int64_t{40} << 30) == "40.0 GiB");
  CHECK(bytes_text(std::numeric_limits<int64_t>::max()) == "8388608 TiB");
  CHECK(with_decimals(std::numeric_limits<double>::infinity(), 2) == "inf");
  CHECK(shortest(-2.2250738585072014e-308) == "-2.2250738585072014e-308");
}

TEST_CASE("numbers are written in the fewest digits that read back the same") {
  CHECK(shortest(1e-5) == "1e-05");
  CHECK(shortest(0.1) == "0.1");
  CHECK(shortest(4) == "4");
}

TEST_CASE("the nearest name is found, or none when all are far") {
  CHECK(nearest_name("fdsp", {"single", "ddp", "fsdp"}) == "fsdp");
  CHECK(nearest_name("rank", {"kind", "ranks"}) == "ranks");
  CHECK(nearest_name("bf16", {"fp16", "bf16_true", "bf16_mixed"}) == "bf16_true");
  CHECK(nearest_name("zzzzzz", {"kind", "ranks"}).empty());
  CHECK(nearest_name("lab", {"plan", "calibrate"}).empty());
  CHECK(nearest_name("name", {"base", "title"}).empty());
  CHECK(nearest_name("gemma-2b", {"llama-7b", "t5-small"}).empty());
  CHECK(nearest_name("fp8", {"fp32", "bf16_true"}).empty());
}

}  // namespace fsdp
