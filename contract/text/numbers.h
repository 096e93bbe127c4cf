#pragma once

#include <string>

// Numbers as text. Every number that a user sees or a program reads is written by one of these:
// they make room for all of a number's digits, however large it is. Numbers that are not finite are
// "inf", "-inf" and "nan".
namespace fsdp {

// The shortest text that reads back as the same number: 1e-05, 0.1, 4.
std::string shortest(double value);

// With so many digits behind the point, as printf's %.<decimals>f.
std::string with_decimals(double value, int decimals);

// With so many digits behind the point, and an exponent, as printf's %.<decimals>e.
std::string with_exponent(double value, int decimals);

}  // namespace fsdp
