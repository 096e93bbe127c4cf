#include <catch2/catch.hpp>
#include <ctime>

#include "base/text/config_error.h"
#include "runner/commands/console.h"

namespace fsdp {
namespace {

constexpr int64_t kNow = 1'795'000'000'000;

int64_t before_now(const std::string& text) { return kNow - moment_unix_ms(text, kNow, "--since"); }

TEST_CASE("a moment is so long ago") {
  CHECK(before_now("90s") == 90'000);
  CHECK(before_now("30m") == 1'800'000);
  CHECK(before_now("1.5h") == 5'400'000);
  CHECK(before_now("3d") == 259'200'000);
  CHECK(before_now("1w") == 604'800'000);
}

TEST_CASE("a moment is a day or a minute in local time") {
  const int64_t day = moment_unix_ms("2026-11-21", kNow, "--since");
  const std::time_t seconds = day / 1'000;
  const std::tm* local = std::localtime(&seconds);
  CHECK(local->tm_year == 126);
  CHECK(local->tm_mon == 10);
  CHECK(local->tm_mday == 21);
  CHECK(local->tm_hour == 0);
  CHECK(moment_unix_ms("2026-11-21T14:30", kNow, "--since") == day + 52'200'000);
  CHECK(moment_unix_ms("2026-11-21 14:30", kNow, "--since") == day + 52'200'000);
}

TEST_CASE("anything else is refused with what is allowed") {
  for (const std::string text :
       {"", "2", "2x", "-2h", "h", "yesterday", "2026-11", "2026-11-31", "2026-11-21T", "1e30d"}) {
    INFO(text);
    CHECK_THROWS_WITH(
        moment_unix_ms(text, kNow, "--since"),
        Catch::StartsWith("--since: '" + text + "' is not a time; allowed: 2026-11-21"));
  }
}

}  // namespace
}  // namespace fsdp
