#pragma once

#include <string>

// Numbers as text. These functions write every number that a user sees or a program reads. They
// make room for all digits, however large the number. Numbers that are not finite are "inf", "-inf"
// and "nan".
namespace fsdp {

// The shortest text that reads back as the same number: 1e-05, 0.1, 4.
std::string shortest(double value);

// With this many digits after the point, like printf's %.<decimals>f.
std::string with_decimals(double value, int decimals);

// With this many digits after the point, and an exponent, like printf's %.<decimals>e.
std::string with_exponent(double value, int decimals);

}  // namespace fsdp
