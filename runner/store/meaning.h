#pragma once

// What readers are told of a member of a row. Its parts follow the member in its line of
// visit_fields, and make it a column of every report, a condition, a group and a sort.
namespace fsdp {

enum class Better { kNeither, kLess, kMore };
enum class Shown { kAlways, kWhereKnown };

struct Meaning {
  const char* sentence;      // what it is, and what it is taken over; its unit ends its name
  const char* heading = "";  // '\n' where tables break it; empty: not among the usual columns
  Better better = Better::kNeither;
  Shown shown = Shown::kAlways;  // among the usual ones
};

}  // namespace fsdp
