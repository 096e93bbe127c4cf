# Sourced by cmake/setup and tests/run, which work in the root of the clone.

# Makes programs and libraries that were unpacked into ROOT/.deps usable from here on.
# Nothing there counts if set-up was interrupted while it unpacked.
use_unpacked() {
  local root=$1 folder
  [[ -e $root/.deps/complete && :$PATH: != *":$root/.deps/usr/bin:"* ]] || return 0
  export PATH=$PATH:$root/.deps/usr/bin
  for folder in "$root"/.deps/{usr/,}lib/"$(uname -m)"-linux-gnu; do
    [[ ! -d $folder ]] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done
}

# True if a program, bin/NAME, can be called, or if another file is in a folder of libraries.
is_there() {
  local prefix unpacked=
  if [[ $1 == bin/* ]]; then
    command -v "${1#bin/}" >/dev/null
    return
  fi
  [[ ! -e .deps/complete ]] || unpacked=.deps/usr
  for prefix in ${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//[:;]/ }} $unpacked /usr /usr/local; do
    [[ ! -s $prefix/$1 ]] || return 0
  done
  return 1
}

# Prints the tests of tests/packages.txt that lack a file, each with the package of this file.
list_tests_without_packages() {
  local test package file
  sed '/^#/d' tests/packages.txt | while read -r test package file; do
    is_there "$file" || echo "$test $package"
  done
}
